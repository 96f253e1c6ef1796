#include "model/decode_layer.h"

#include "common/status_macros.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kv/kernel_status.h"
#include "model/layer_forward.h"

namespace anchorage::model {

absl::Status EmbedTokens(const Model& model, const int32_t* ids, int64_t count, float* hidden) {
  const int64_t vocab_size = model.config().vocab_size;
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      return Invalid("token %d at position %d is not in 0..%d", ids[i], i, vocab_size - 1);
    }
  }
  return kv::FromKernel(kernels::GatherRows(model.embedding(), ids, count, hidden), "GatherRows");
}

absl::Status DecodeLayer(const Model& model, int64_t layer, int64_t rows, const int32_t* positions,
                         float* hidden, AttentionFn attend, LayerScratch& scratch,
                         kernels::Stream& stream) {
  const ModelConfig& config = model.config();
  if (rows > scratch.max_rows) {
    return Invalid("%d rows in a step, more than %d", rows, scratch.max_rows);
  }
  for (int64_t i = 0; i < rows; ++i) {
    if (positions[i] < 0 || positions[i] >= config.context_length) {
      return Invalid("position %d is outside the context of %d", positions[i],
                     config.context_length);
    }
  }
  const LayerMatrices matrices{&model.layer(layer), nullptr};
  RETURN_IF_ERROR(ProjectQkv(config, matrices, rows, hidden, scratch, stream));
  RETURN_IF_ERROR(
      kv::FromKernel(kernels::ApplyRope(rows, static_cast<int>(config.num_q_heads), config.q_dim(),
                                        model.rope(), 0, positions, scratch.q, stream),
                     "ApplyRope"));
  RETURN_IF_ERROR(kv::FromKernel(
      kernels::ApplyRope(rows, static_cast<int>(config.num_kv_heads), config.kv_dim(), model.rope(),
                         0, positions, scratch.k, stream),
      "ApplyRope"));
  RETURN_IF_ERROR(attend(layer, rows, scratch.q, scratch.k, scratch.v, scratch.attention));
  return FinishLayer(config, matrices, rows, hidden, scratch, stream);
}

}  // namespace anchorage::model
