// Measures one prompt: it is prefilled once, all candidate caches take each layer as it ends, and
// the tokens behind the prompt are forced through them as the rows of one decode batch, the step
// that serves.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "decode_node/core/batch_step.h"
#include "eval/candidate.h"
#include "eval/candidate_cache.h"
#include "eval/fidelity/attention_probe.h"
#include "eval/fidelity/result.h"
#include "eval/prompts.h"
#include "kernels/stream.h"
#include "model/model.h"

namespace anchorage::eval {

// One thread at a time.
class Measurement {
 public:
  // `candidates`: the full cache first; at most decode::kMaxStepRows of them. `probe_rows`: see
  // AttentionProbe. `model` and `stream` must outlive it. InvalidArgument: none or too many.
  static absl::StatusOr<Measurement> Create(const model::Model& model,
                                            std::vector<Candidate> candidates, int64_t probe_rows,
                                            kernels::Stream& stream);

  // Everything but the prompt that decides the results, as one line of JSON.
  std::string setting() const;

  // Whether the prompt can be measured, without doing it. InvalidArgument: it and what is forced
  // behind it exceed the model's context, or a candidate's plan makes no sense for it.
  absl::Status Check(const Prompt& prompt) const;

  // InvalidArgument: as Check. ResourceExhausted: no memory. FailedPrecondition: a figure is not
  // finite.
  absl::StatusOr<PromptResult> Run(const Prompt& prompt);

 private:
  Measurement(const model::Model& model, std::vector<Candidate> candidates, int64_t probe_rows,
              kernels::Stream& stream)
      : model_(&model),
        candidates_(std::move(candidates)),
        probe_rows_(probe_rows),
        stream_(&stream) {}

  absl::StatusOr<std::vector<CandidateCache>> MakeCaches(const Prompt& prompt,
                                                         decode::Arena& arena) const;
  absl::Status Force(const Prompt& prompt, const std::vector<float>& prefilled,
                     std::span<CandidateCache> caches, PromptResult& result);
  void Summarise(const CandidateCache& cache, const AttentionError& error,
                 CandidateResult& result) const;

  const model::Model* model_;
  std::vector<Candidate> candidates_;
  int64_t probe_rows_;
  kernels::Stream* stream_;
  std::unique_ptr<decode::BatchStep> step_;
};

}  // namespace anchorage::eval
