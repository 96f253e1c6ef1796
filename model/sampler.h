// Picks the next token from its logits. Nothing is remembered between tokens but what the caller
// passes in, and the random number is a function of (seed, position): a stream that is resumed
// elsewhere draws the same.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace anchorage::model {

struct SamplingParams {
  float temperature = 0;  // 0: greedy
  int32_t top_k = 0;      // 0: off
  float top_p = 1;        // 1: off
  float min_p = 0;        // 0: off
  uint64_t seed = 0;
  float repetition_penalty =
      1;                       // 1: off (CTRL, arXiv:1909.05858, section 4.1); over prompt + output
  float presence_penalty = 0;  // once per token that was generated
  float frequency_penalty = 0;                        // per time it was generated
  std::vector<std::pair<int32_t, float>> logit_bias;  // (token, added to its logit)
  int64_t min_tokens = 0;         // before that many, no stop token can be picked
  bool ignore_eos = false;        // the model's own stop tokens neither stop nor can be picked
  std::vector<int32_t> stop_ids;  // further tokens that end the generation

  // Whether the caller must know the prompt's ids to continue.
  bool NeedsPromptIds() const { return repetition_penalty != 1; }
};

// InvalidArgument names the field: NaN or infinite, out of range, an id outside the vocabulary.
absl::Status CheckSampling(const SamplingParams& params, int64_t vocab_size);

// What the sampler may look at of one sequence.
struct SamplingContext {
  std::span<const int32_t> prompt_ids;      // may be empty unless NeedsPromptIds()
  std::span<const int32_t> generated_ids;   // so far
  std::span<const int32_t> model_stop_ids;  // EOS and its like
  int64_t position = 0;  // absolute position of the token to be picked: the random counter
};

// The next token. `logits` [vocab] are changed in place. Greedy takes the largest logit, the lowest
// id on ties. Otherwise, in this order: penalties, bias and masks, temperature, top-k, top-p,
// min-p, one draw. Ties around top-k and top-p fall to the lower id. DataLoss: a logit is NaN, or
// +Inf, or none is left to pick from.
absl::StatusOr<int32_t> SampleToken(const SamplingParams& params, const SamplingContext& context,
                                    std::span<float> logits);

// Whether picking `token` ends the generation: one of stop_ids, or of the model's own unless
// ignore_eos.
bool EndsGeneration(const SamplingParams& params, std::span<const int32_t> model_stop_ids,
                    int32_t token);

// Uniform in [0, 1) with 53 bits: splitmix64 of (seed, counter), Steele et al., OOPSLA 2014.
double UniformAt(uint64_t seed, uint64_t counter);

}  // namespace anchorage::model
