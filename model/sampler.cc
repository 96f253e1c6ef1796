#include "model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::model {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Finite and in [min, max].
absl::Status CheckRange(const char* name, double value, double min, double max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return Invalid("%s is %g, not in %g..%g", name, value, min, max);
}

absl::Status CheckId(const char* name, int32_t id, int64_t vocab_size) {
  if (id >= 0 && id < vocab_size) return absl::OkStatus();
  return Invalid("%s names token %d, not in 0..%d", name, id, vocab_size - 1);
}

absl::Status CheckLogits(std::span<const float> logits) {
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity()) {
      return DataLoss("the logit of token %d is %g", i, logits[i]);
    }
  }
  return absl::OkStatus();
}

// Pushes the logit of a token that was seen towards less likely (arXiv:1909.05858, eq. 1, with the
// sign rule that keeps a negative logit from becoming likelier).
void PenaliseRepetition(float penalty, std::span<const int32_t> ids, std::vector<bool>& seen,
                        std::span<float> logits) {
  for (const int32_t id : ids) {
    const size_t token = static_cast<size_t>(id);
    if (token >= logits.size() || seen[token]) continue;
    seen[token] = true;
    logits[token] = logits[token] > 0 ? logits[token] / penalty : logits[token] * penalty;
  }
}

void ApplyPenalties(const SamplingParams& params, const SamplingContext& context,
                    std::span<float> logits) {
  if (params.repetition_penalty != 1) {
    std::vector<bool> seen(logits.size());
    PenaliseRepetition(params.repetition_penalty, context.prompt_ids, seen, logits);
    PenaliseRepetition(params.repetition_penalty, context.generated_ids, seen, logits);
  }
  if (params.presence_penalty == 0 && params.frequency_penalty == 0) return;
  std::unordered_map<int32_t, int64_t> counts;
  for (const int32_t id : context.generated_ids) ++counts[id];
  for (const auto& [id, count] : counts) {
    logits[static_cast<size_t>(id)] -=
        params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
  }
}

void MaskStops(const SamplingParams& params, const SamplingContext& context,
               std::span<float> logits) {
  const auto mask = [logits](std::span<const int32_t> ids) {
    for (const int32_t id : ids) {
      if (static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] = kMinusInfinity;
    }
  };
  const bool too_early = static_cast<int64_t>(context.generated_ids.size()) < params.min_tokens;
  if (too_early || params.ignore_eos) mask(context.model_stop_ids);
  if (too_early) mask(params.stop_ids);
}

// The first of the largest.
size_t ArgMax(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

struct Candidate {
  int32_t id;
  float logit;
  double weight;  // exp((logit - largest) / temperature)
};

bool Before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

double TotalWeight(std::span<const Candidate> candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

void KeepTopK(size_t k, std::vector<Candidate>& candidates) {
  if (k >= candidates.size()) return;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(k),
                   candidates.end(), Before);
  candidates.resize(k);
}

// The fewest best candidates whose share of the weight reaches top_p (arXiv:1904.09751). They are
// sorted a growing head at a time, since the nucleus is small beside the vocabulary.
void KeepTopP(double top_p, std::vector<Candidate>& candidates) {
  const double wanted = top_p * TotalWeight(candidates);
  double reached = 0;
  size_t sorted = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i == sorted) {
      const size_t begin = sorted;
      sorted = std::min(candidates.size(), std::max<size_t>(256, 4 * sorted));
      std::partial_sort(candidates.begin() + static_cast<std::ptrdiff_t>(begin),
                        candidates.begin() + static_cast<std::ptrdiff_t>(sorted), candidates.end(),
                        Before);
    }
    reached += candidates[i].weight;
    if (reached >= wanted) {
      candidates.resize(i + 1);
      return;
    }
  }
}

void KeepMinP(double min_p, std::vector<Candidate>& candidates) {
  std::erase_if(candidates, [min_p](const Candidate& c) { return c.weight < min_p; });
}

int32_t Draw(double uniform, std::span<const Candidate> candidates) {
  double left = uniform * TotalWeight(candidates);
  for (const Candidate& candidate : candidates) {
    left -= candidate.weight;
    if (left < 0) return candidate.id;
  }
  return candidates.back().id;  // rounding left a little over
}

int32_t SampleRandom(const SamplingParams& params, const SamplingContext& context, float largest,
                     std::span<const float> logits) {
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == kMinusInfinity) continue;
    const double weight = std::exp((double{logits[i]} - largest) / params.temperature);
    candidates.push_back({static_cast<int32_t>(i), logits[i], weight});
  }
  if (params.top_k > 0) KeepTopK(static_cast<size_t>(params.top_k), candidates);
  if (params.top_p < 1) KeepTopP(params.top_p, candidates);
  if (params.min_p > 0) KeepMinP(params.min_p, candidates);
  // One order for the draw, whatever the filters did.
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  const double uniform = UniformAt(params.seed, static_cast<uint64_t>(context.position));
  return Draw(uniform, candidates);
}

uint64_t SplitMix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

absl::Status CheckSampling(const SamplingParams& params, int64_t vocab_size) {
  RETURN_IF_ERROR(CheckRange("temperature", params.temperature, 0, 100));
  RETURN_IF_ERROR(CheckRange("top_k", params.top_k, 0, 1 << 30));
  RETURN_IF_ERROR(CheckRange("top_p", params.top_p, 1e-9, 1));
  RETURN_IF_ERROR(CheckRange("min_p", params.min_p, 0, 1));
  RETURN_IF_ERROR(CheckRange("repetition_penalty", params.repetition_penalty, 1e-3, 1e3));
  RETURN_IF_ERROR(CheckRange("presence_penalty", params.presence_penalty, -100, 100));
  RETURN_IF_ERROR(CheckRange("frequency_penalty", params.frequency_penalty, -100, 100));
  RETURN_IF_ERROR(
      CheckRange("min_tokens", static_cast<double>(params.min_tokens), 0, int64_t{1} << 40));
  for (const auto& [id, bias] : params.logit_bias) {
    RETURN_IF_ERROR(CheckId("logit_bias", id, vocab_size));
    RETURN_IF_ERROR(CheckRange("logit_bias", bias, -1e6, 1e6));
  }
  for (const int32_t id : params.stop_ids) RETURN_IF_ERROR(CheckId("stop_ids", id, vocab_size));
  return absl::OkStatus();
}

absl::StatusOr<int32_t> SampleToken(const SamplingParams& params, const SamplingContext& context,
                                    std::span<float> logits) {
  RETURN_IF_ERROR(CheckLogits(logits));
  ApplyPenalties(params, context, logits);
  for (const auto& [id, bias] : params.logit_bias) logits[static_cast<size_t>(id)] += bias;
  MaskStops(params, context, logits);
  const size_t best = ArgMax(logits);
  if (logits[best] == kMinusInfinity) return DataLoss("no token is left to pick from");
  if (params.temperature == 0) return static_cast<int32_t>(best);
  return SampleRandom(params, context, logits[best], logits);
}

bool EndsGeneration(const SamplingParams& params, std::span<const int32_t> model_stop_ids,
                    int32_t token) {
  const auto contains = [token](std::span<const int32_t> ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return contains(params.stop_ids) || (!params.ignore_eos && contains(model_stop_ids));
}

double UniformAt(uint64_t seed, uint64_t counter) {
  return static_cast<double>(SplitMix64(SplitMix64(seed) ^ counter) >> 11) * 0x1p-53;
}

}  // namespace anchorage::model
