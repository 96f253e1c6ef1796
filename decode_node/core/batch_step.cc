#include "decode_node/core/batch_step.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "kernels/elementwise.h"
#include "model/head.h"

namespace anchorage::decode {

using kernels::Bf16;
using kernels::kGeneratedBlockTokens;

absl::StatusOr<std::unique_ptr<BatchStep>> BatchStep::Create(const model::Model& model,
                                                             std::vector<int32_t> model_stop_ids,
                                                             kernels::Stream& stream) {
  ASSIGN_OR_RETURN(model::LayerScratch scratch,
                   model::LayerScratch::Create(model.config(), kMaxStepRows));
  std::unique_ptr<BatchStep> step(
      new BatchStep(model, std::move(model_stop_ids), stream, std::move(scratch)));
  if (step->hidden_.data() == nullptr || step->logits_.data() == nullptr) {
    return Exhausted("no memory for a decode step of %d rows", kMaxStepRows);
  }
  return step;
}

BatchStep::BatchStep(const model::Model& model, std::vector<int32_t> model_stop_ids,
                     kernels::Stream& stream, model::LayerScratch scratch)
    : model_(model),
      model_stop_ids_(std::move(model_stop_ids)),
      stream_(stream),
      scratch_(std::move(scratch)),
      hidden_(static_cast<size_t>(kMaxStepRows * model.config().hidden_dim) * sizeof(float)),
      logits_(static_cast<size_t>(kMaxStepRows * model.config().vocab_size) * sizeof(float)) {}

std::vector<StepResult> BatchStep::Run(std::span<Sequence* const> batch) {
  std::vector<StepResult> results(batch.size());
  std::vector<Sequence*> rows;
  std::vector<StepResult*> row_results;
  for (size_t i = 0; i < batch.size(); ++i) {
    results[i].status = batch[i]->PrepareStep();
    if (results[i].status.ok()) {
      rows.push_back(batch[i]);
      row_results.push_back(&results[i]);
    }
    if (rows.size() == static_cast<size_t>(kMaxStepRows) || i + 1 == batch.size()) {
      Pass(rows, row_results);
      rows.clear();
      row_results.clear();
    }
  }
  return results;
}

absl::StatusOr<std::span<const float>> BatchStep::Logits(std::span<Sequence* const> rows) {
  if (rows.size() > static_cast<size_t>(kMaxStepRows)) {
    return Invalid("%d rows in a pass of %d", rows.size(), kMaxStepRows);
  }
  for (Sequence* sequence : rows) RETURN_IF_ERROR(sequence->PrepareStep());
  RETURN_IF_ERROR(Forward(rows));
  const size_t vocab = static_cast<size_t>(model_.config().vocab_size);
  return std::span<const float>(logits_.as<float>(), rows.size() * vocab);
}

void BatchStep::Pass(std::span<Sequence* const> rows, std::span<StepResult* const> results) {
  if (rows.empty()) return;
  const absl::Status forward = Forward(rows);
  const size_t vocab = static_cast<size_t>(model_.config().vocab_size);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (forward.ok()) {
      *results[i] = Sample(*rows[i], {logits_.as<float>() + i * vocab, vocab});
    } else {
      results[i]->status = forward;
    }
  }
}

absl::Status BatchStep::Forward(std::span<Sequence* const> rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  std::vector<int32_t> ids;
  std::vector<int32_t> positions;
  for (Sequence* sequence : rows) {
    ids.push_back(sequence->tokens().back());
    positions.push_back(static_cast<int32_t>(sequence->position()));
  }
  float* hidden = hidden_.as<float>();
  RETURN_IF_ERROR(model::EmbedTokens(model_, ids.data(), count, hidden));
  const auto attend = [&](int64_t layer, int64_t, const float* q, const float* k, const float* v,
                          float* out) { return Attend(rows, layer, q, k, v, out); };
  for (int64_t layer = 0; layer < model_.config().num_layers; ++layer) {
    RETURN_IF_ERROR(model::DecodeLayer(model_, layer, count, positions.data(), hidden, attend,
                                       scratch_, stream_));
  }
  return model::ComputeLogits(model_, count, hidden, hidden, logits_.as<float>(), stream_);
}

absl::Status BatchStep::Attend(std::span<Sequence* const> rows, int64_t layer, const float* q,
                               const float* k, const float* v, float* out) {
  const model::ModelConfig& config = model_.config();
  std::vector<kernels::SequenceCache> caches;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) * config.kv_dim();
    Store(*rows[i], layer, k + row, v + row);
    caches.push_back(rows[i]->cache(layer));
  }
  RETURN_IF_ERROR(ReserveAttentionScratch(caches));
  const kernels::DecodeAttentionShape shape{.num_q_heads = static_cast<int>(config.num_q_heads),
                                            .num_kv_heads = static_cast<int>(config.num_kv_heads),
                                            .head_dim = static_cast<int>(config.head_dim)};
  const kernels::Status status =
      kernels::DecodeAttention(shape, static_cast<int64_t>(caches.size()), caches.data(), q,
                               model_.rope(), out, attention_.data(), stream_);
  if (status == kernels::Status::kOk) return absl::OkStatus();
  return Internal("decode attention failed in layer %d with code %d", layer,
                  static_cast<int>(status));
}

void BatchStep::Store(Sequence& sequence, int64_t layer, const float* k, const float* v) {
  const model::ModelConfig& config = model_.config();
  Bf16* key = sequence.key_slot(layer);
  Bf16* value = sequence.value_slot(layer);
  for (int64_t head = 0; head < config.num_kv_heads; ++head) {
    const int64_t to = head * kGeneratedBlockTokens * config.head_dim;
    kernels::ToBf16Row(config.head_dim, k + head * config.head_dim, key + to);
    kernels::ToBf16Row(config.head_dim, v + head * config.head_dim, value + to);
  }
}

absl::Status BatchStep::ReserveAttentionScratch(std::span<const kernels::SequenceCache> caches) {
  int anchors = 1;
  for (const kernels::SequenceCache& cache : caches) {
    anchors = std::max(anchors, cache.compact.num_anchors);
  }
  if (anchors <= attention_anchors_) return absl::OkStatus();
  const model::ModelConfig& config = model_.config();
  const kernels::DecodeAttentionShape shape{.num_q_heads = static_cast<int>(config.num_q_heads),
                                            .num_kv_heads = static_cast<int>(config.num_kv_heads),
                                            .head_dim = static_cast<int>(config.head_dim)};
  const int64_t bytes = kernels::DecodeAttentionScratchBytes(shape, anchors, stream_.num_threads());
  attention_ = AlignedBuffer(static_cast<size_t>(bytes));
  if (attention_.data() == nullptr) return Exhausted("no memory for %d bytes of scratch", bytes);
  attention_anchors_ = anchors;
  return absl::OkStatus();
}

StepResult BatchStep::Sample(Sequence& sequence, std::span<float> logits) {
  const SequenceRequest& request = sequence.request();
  const model::SamplingContext context{.prompt_ids = request.prompt_ids,
                                       .generated_ids = sequence.tokens(),
                                       .model_stop_ids = model_stop_ids_,
                                       .position = sequence.position() + 1};
  const absl::StatusOr<int32_t> token = model::SampleToken(request.sampling, context, logits);
  if (!token.ok()) return {.status = token.status()};
  sequence.Append(*token);
  return {.status = absl::OkStatus(),
          .token = *token,
          .finish =
              model::FinishAfter(request.sampling, model_stop_ids_, *token,
                                 static_cast<int64_t>(sequence.tokens().size()), request.max_new)};
}

}  // namespace anchorage::decode
