#include "model/layer_scratch.h"

#include "common/status.h"

namespace anchorage::model {

int64_t LayerScratch::BytesFor(const ModelConfig& config, int64_t max_rows) {
  const int64_t floats_per_row =
      config.hidden_dim + 2 * config.q_dim() + 2 * config.kv_dim() + 2 * config.ff_dim;
  return max_rows * floats_per_row * static_cast<int64_t>(sizeof(float));
}

absl::StatusOr<LayerScratch> LayerScratch::Create(const ModelConfig& config, int64_t max_rows) {
  LayerScratch scratch;
  scratch.buffer = AlignedBuffer(static_cast<size_t>(BytesFor(config, max_rows)));
  if (scratch.buffer.data() == nullptr) {
    return Exhausted("no memory for the activations of %d rows", max_rows);
  }
  scratch.max_rows = max_rows;
  float* next = scratch.buffer.as<float>();
  const auto take = [&next, max_rows](int64_t width) {
    float* taken = next;
    next += max_rows * width;
    return taken;
  };
  scratch.normed = take(config.hidden_dim);
  scratch.q = take(config.q_dim());
  scratch.k = take(config.kv_dim());
  scratch.v = take(config.kv_dim());
  scratch.attention = take(config.q_dim());
  scratch.gate = take(config.ff_dim);
  scratch.up = take(config.ff_dim);
  return scratch;
}

}  // namespace anchorage::model
