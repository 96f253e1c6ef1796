// One step of continuous batching: every sequence of the batch gets its next token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/aligned_buffer.h"
#include "decode_node/core/sequence.h"
#include "kernels/stream.h"
#include "model/decode_layer.h"
#include "model/model.h"

namespace anchorage::decode {

// Rows that pass through the model together; a larger batch takes several passes. Bits do not
// depend on it (row-invariant kernels).
inline constexpr int64_t kMaxStepRows = 64;

// What became of one sequence in a step.
struct StepResult {
  absl::Status status;  // not OK: this sequence failed, the others did not
  int32_t token = 0;
  model::Finish finish = model::Finish::kNone;
};

// One caller at a time. Keeps its scratch between steps.
class BatchStep {
 public:
  static absl::StatusOr<std::unique_ptr<BatchStep>> Create(const model::Model& model,
                                                           std::vector<int32_t> model_stop_ids,
                                                           kernels::Stream& stream);

  // results[i] belongs to batch[i], whose tokens already include the new one.
  std::vector<StepResult> Run(std::span<Sequence* const> batch);

  // For evaluation: the forward pass of a step without its sampling. Feeds each row's last token
  // and hands back the scores of the next, [rows, vocab], valid until the next call. The caller
  // picks that token and appends it. InvalidArgument: more than kMaxStepRows rows. Other errors as
  // Sequence::PrepareStep.
  absl::StatusOr<std::span<const float>> Logits(std::span<Sequence* const> rows);

 private:
  BatchStep(const model::Model& model, std::vector<int32_t> model_stop_ids, kernels::Stream& stream,
            model::LayerScratch scratch);

  void Pass(std::span<Sequence* const> rows, std::span<StepResult* const> results);
  absl::Status Forward(std::span<Sequence* const> rows);
  absl::Status Attend(std::span<Sequence* const> rows, int64_t layer, const float* q,
                      const float* k, const float* v, float* out);
  void Store(Sequence& sequence, int64_t layer, const float* k, const float* v);
  StepResult Sample(Sequence& sequence, std::span<float> logits);
  absl::Status ReserveAttentionScratch(std::span<const kernels::SequenceCache> caches);

  const model::Model& model_;
  const std::vector<int32_t> model_stop_ids_;
  kernels::Stream& stream_;
  model::LayerScratch scratch_;
  AlignedBuffer hidden_;     // [kMaxStepRows, d]
  AlignedBuffer logits_;     // [kMaxStepRows, vocab]
  AlignedBuffer attention_;  // what the attention kernel asks for
  int attention_anchors_ = 0;
};

}  // namespace anchorage::decode
