#include "eval/ruler/generate.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::eval::ruler {
namespace {

// A prompt with so many units of haystack.
class Fitting {
 public:
  Fitting(const SampleKey& key, const PromptRenderer& renderer) : key_(key), renderer_(renderer) {}

  int64_t room() const { return key_.target_len - key_.task.max_tokens; }

  absl::StatusOr<Sample> Write(int64_t units) const {
    Draft draft = key_.task.write({key_.seed, key_.id, key_.target_len, units, key_.depth});
    Sample sample;
    sample.key = key_;
    ASSIGN_OR_RETURN(sample.prompt, renderer_.Render(draft.prompt, draft.cue));
    sample.refs = std::move(draft.refs);
    sample.depth = draft.depth;
    return sample;
  }

  bool Fits(const Sample& sample) const {
    return static_cast<int64_t>(sample.prompt.ids.size()) <= room();
  }

 private:
  const SampleKey& key_;
  const PromptRenderer& renderer_;
};

absl::Status TooShort(const SampleKey& key, const Sample& least) {
  return Invalid(
      "%s needs a length of at least %d tokens, %d is too short", std::string(key.task.name),
      static_cast<int64_t>(least.prompt.ids.size()) + key.task.max_tokens, key.target_len);
}

std::string IdOf(const Task& task, int64_t target_len, int64_t index, uint64_t seed) {
  return absl::StrFormat("%s/%d/%d/seed%d", std::string(task.name), target_len, index, seed);
}

// Depths of the passkey are part of its name, so that grids of different fineness can lie in one
// file.
std::string IdAtDepth(const Task& task, int64_t target_len, double depth, int64_t index,
                      uint64_t seed) {
  return absl::StrFormat("%s/%d/depth%.4f/%d/seed%d", std::string(task.name), target_len, depth,
                         index, seed);
}

}  // namespace

std::vector<SampleKey> KeysOf(const RunPlan& plan) {
  std::vector<int64_t> lengths = plan.lengths;
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  std::vector<SampleKey> keys;
  for (const int64_t length : lengths) {
    for (int64_t index = 0; index < plan.samples; ++index) {
      for (const Task& task : plan.tasks) {
        if (task.metric != Metric::kPasskey) {
          keys.push_back({task, length, kNoDepth, plan.seed, IdOf(task, length, index, plan.seed)});
          continue;
        }
        for (int64_t step = 0; step < plan.depths; ++step) {
          const double depth =
              plan.depths == 1 ? 0.5
                               : static_cast<double>(step) / static_cast<double>(plan.depths - 1);
          keys.push_back(
              {task, length, depth, plan.seed, IdAtDepth(task, length, depth, index, plan.seed)});
        }
      }
    }
  }
  return keys;
}

absl::StatusOr<Sample> MakeSample(const SampleKey& key, const PromptRenderer& renderer) {
  const Fitting fitting(key, renderer);
  ASSIGN_OR_RETURN(Sample best, fitting.Write(0));
  if (!fitting.Fits(best)) return TooShort(key, best);
  // `best` has `fits` units; `too_many` do not fit.
  int64_t fits = 0;
  int64_t too_many = 16;
  while (true) {
    ASSIGN_OR_RETURN(Sample sample, fitting.Write(too_many));
    if (!fitting.Fits(sample)) break;
    best = std::move(sample);
    fits = std::exchange(too_many, 2 * too_many);
  }
  while (fits + 1 < too_many) {
    const int64_t middle = fits + (too_many - fits) / 2;
    ASSIGN_OR_RETURN(Sample sample, fitting.Write(middle));
    if (fitting.Fits(sample)) {
      fits = middle;
      best = std::move(sample);
    } else {
      too_many = middle;
    }
  }
  return best;
}

absl::Status CheckLengths(const RunPlan& plan, const PromptRenderer& renderer,
                          int64_t context_length) {
  for (const int64_t length : plan.lengths) {
    if (length > context_length) {
      return Invalid("a length of %d tokens is beyond the model's context of %d", length,
                     context_length);
    }
    for (const Task& task : plan.tasks) {
      const SampleKey key{task, length, kNoDepth, plan.seed, IdOf(task, length, 0, plan.seed)};
      const Fitting fitting(key, renderer);
      ASSIGN_OR_RETURN(const Sample least, fitting.Write(0));
      if (!fitting.Fits(least)) return TooShort(key, least);
    }
  }
  return absl::OkStatus();
}

}  // namespace anchorage::eval::ruler
