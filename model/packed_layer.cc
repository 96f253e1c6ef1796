#include "model/packed_layer.h"

#include "common/status.h"
#include "common/status_macros.h"
#include "kv/kernel_status.h"

namespace anchorage::model {
namespace {

// Floats of one matrix in the buffer: each starts 64-byte aligned, as PackWeights wants it.
int64_t AlignedSize(const MatrixShape& shape) {
  constexpr int64_t kFloatsPerLine = static_cast<int64_t>(kBufferAlignment / sizeof(float));
  const int64_t size = kernels::PackedWeightsSize(shape.rows, shape.cols);
  return (size + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

}  // namespace

absl::StatusOr<PackedLayer> PackedLayer::Create(const ModelConfig& config) {
  int64_t floats = 0;
  for (size_t i = 0; i < kNumMatrices; ++i) {
    floats += AlignedSize(ShapeOf(config, static_cast<Matrix>(i)));
  }
  PackedLayer layer;
  layer.buffer_ = AlignedBuffer(static_cast<size_t>(floats) * sizeof(float));
  if (layer.buffer_.data() == nullptr) return Exhausted("no memory for an unpacked layer");
  float* next = layer.buffer_.as<float>();
  for (size_t i = 0; i < kNumMatrices; ++i) {
    const MatrixShape shape = ShapeOf(config, static_cast<Matrix>(i));
    layer.matrices_[i] = {shape.rows, shape.cols, next};
    next += AlignedSize(shape);
  }
  return layer;
}

absl::Status PackedLayer::Unpack(const Model& model, int64_t layer, kernels::Stream& stream) {
  if (layer == layer_) return absl::OkStatus();
  layer_ = -1;
  float* base = buffer_.as<float>();
  for (size_t i = 0; i < kNumMatrices; ++i) {
    float* packed = base + (matrices_[i].data - base);
    RETURN_IF_ERROR(kv::FromKernel(
        kernels::PackWeights(model.layer(layer).matrices[i], packed, stream), "PackWeights"));
  }
  layer_ = layer;
  return absl::OkStatus();
}

}  // namespace anchorage::model
