#include "eval/ruler/local_answerer.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "decode_node/core/arena.h"
#include "decode_node/core/batch_step.h"
#include "eval/candidate_cache.h"
#include "eval/prefill_once.h"
#include "eval/ruler/fingerprint.h"
#include "text/tokenizer.h"

namespace anchorage::eval::ruler {
namespace {

absl::Status CheckSettings(const std::vector<KvSetting>& settings) {
  if (std::ssize(settings) > decode::kMaxStepRows) {
    return Invalid(
        "%d caches at once: at most %d can answer together; take fewer --methods or --ratios",
        settings.size(), decode::kMaxStepRows);
  }
  std::set<std::string> names;
  for (const KvSetting& setting : settings) {
    if (names.insert(setting.name).second) continue;
    return Invalid("there are two settings '%s'; name each of --methods and --ratios once",
                   setting.name);
  }
  return absl::OkStatus();
}

// A decode node's memory is bounded by its operator; here only by the machine.
constexpr int64_t kNoLimitBytes = int64_t{1} << 50;

int32_t Likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

class LocalAnswerer::Core {
 public:
  Core(const model::Model& model, text::Tokenizer tokenizer, std::vector<KvSetting> settings,
       int threads)
      : model_(model),
        tokenizer_(std::move(tokenizer)),
        settings_(std::move(settings)),
        stream_(threads) {}

  absl::Status Start() {
    ASSIGN_OR_RETURN(step_, decode::BatchStep::Create(model_, {}, stream_));
    return absl::OkStatus();
  }

  const std::vector<KvSetting>& settings() const { return settings_; }

  uint64_t fingerprint(const std::string& name) const {
    const KvSetting* const setting = Find(name);
    if (setting == nullptr) return 0;
    const Candidate& candidate = setting->candidate;
    return FingerprintOf(absl::StrFormat("%016x %016x %s", model_.fingerprint(),
                                         kv::PlanFingerprint(model_.geometry(), candidate.options),
                                         candidate.method));
  }

  absl::StatusOr<std::vector<Answer>> Ask(const Sample& sample,
                                          const std::vector<std::string>& names) {
    decode::Arena arena(kNoLimitBytes);
    std::vector<CandidateCache> caches;
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(CandidateCache cache, CacheOf(name, sample, arena));
      caches.push_back(std::move(cache));
    }
    ASSIGN_OR_RETURN(const std::vector<float> logits,
                     PrefillPrompt(model_, sample.prompt.ids, caches, stream_));
    ASSIGN_OR_RETURN(const std::vector<std::vector<int32_t>> tokens,
                     Decode(Likeliest(logits), sample.key.task.max_tokens, caches));
    std::vector<Answer> answers;
    for (size_t i = 0; i < names.size(); ++i) {
      answers.push_back({names[i], tokenizer_.Decode(tokens[i], /*skip_control=*/true),
                         static_cast<int64_t>(tokens[i].size()), caches[i].bytes(),
                         caches[i].ratio()});
    }
    return answers;
  }

 private:
  // Null when there is none.
  const KvSetting* Find(const std::string& name) const {
    const auto found = std::find_if(settings_.begin(), settings_.end(),
                                    [&name](const KvSetting& each) { return each.name == name; });
    return found == settings_.end() ? nullptr : &*found;
  }

  absl::StatusOr<CandidateCache> CacheOf(const std::string& name, const Sample& sample,
                                         decode::Arena& arena) const {
    const KvSetting* const setting = Find(name);
    if (setting == nullptr) return Internal("there is no setting '%s'", name);
    return CandidateCache::Create(model_, setting->candidate.options,
                                  static_cast<int64_t>(sample.prompt.ids.size()),
                                  sample.key.task.max_tokens, arena, setting->candidate.ablation);
  }

  // The tokens of each cache's answer, which begins with `first`. A stop token ends it.
  absl::StatusOr<std::vector<std::vector<int32_t>>> Decode(int32_t first, int64_t max_tokens,
                                                           std::span<CandidateCache> caches) {
    std::vector<std::vector<int32_t>> tokens(caches.size(), {first});
    struct Row {
      decode::Sequence* sequence;
      std::vector<int32_t>* tokens;
    };
    std::vector<Row> rows;
    for (size_t i = 0; i < caches.size(); ++i) rows.push_back({&caches[i].Join(first), &tokens[i]});
    const auto ended = [&](const Row& row) {
      return tokenizer_.IsStop(row.tokens->back()) ||
             static_cast<int64_t>(row.tokens->size()) >= max_tokens;
    };
    for (std::erase_if(rows, ended); !rows.empty(); std::erase_if(rows, ended)) {
      std::vector<decode::Sequence*> batch;
      for (const Row& row : rows) batch.push_back(row.sequence);
      ASSIGN_OR_RETURN(const std::span<const float> logits, step_->Logits(batch));
      const size_t vocab = logits.size() / rows.size();
      for (size_t i = 0; i < rows.size(); ++i) {
        const int32_t token = Likeliest(logits.subspan(i * vocab, vocab));
        rows[i].sequence->Append(token);
        rows[i].tokens->push_back(token);
      }
    }
    return tokens;
  }

  const model::Model& model_;
  const text::Tokenizer tokenizer_;
  const std::vector<KvSetting> settings_;
  kernels::Stream stream_;
  std::unique_ptr<decode::BatchStep> step_;
};

LocalAnswerer::LocalAnswerer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
LocalAnswerer::~LocalAnswerer() = default;

absl::StatusOr<std::unique_ptr<LocalAnswerer>> LocalAnswerer::Create(
    const model::Model& model, std::vector<KvSetting> settings, int threads) {
  RETURN_IF_ERROR(CheckSettings(settings));
  ASSIGN_OR_RETURN(text::Tokenizer tokenizer, text::Tokenizer::FromGguf(model.file()));
  auto core = std::make_unique<Core>(model, std::move(tokenizer), std::move(settings), threads);
  RETURN_IF_ERROR(core->Start());
  return std::unique_ptr<LocalAnswerer>(new LocalAnswerer(std::move(core)));
}

std::vector<std::string> LocalAnswerer::settings() const {
  std::vector<std::string> names;
  for (const KvSetting& setting : core_->settings()) names.push_back(setting.name);
  return names;
}

uint64_t LocalAnswerer::setting_fingerprint(const std::string& setting) const {
  return core_->fingerprint(setting);
}

absl::StatusOr<std::vector<Answer>> LocalAnswerer::Ask(const Sample& sample,
                                                       const std::vector<std::string>& settings) {
  return core_->Ask(sample, settings);
}

}  // namespace anchorage::eval::ruler
