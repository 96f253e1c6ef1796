// One layer's matrices unpacked to float in the GEMM's panel order. The storage is made once and
// reused for layer after layer, so that a layer-major prefill unpacks each layer once.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/aligned_buffer.h"
#include "kernels/matmul.h"
#include "kernels/stream.h"
#include "model/model.h"

namespace anchorage::model {

class PackedLayer {
 public:
  // Room for one layer of this model. ResourceExhausted: no memory.
  static absl::StatusOr<PackedLayer> Create(const ModelConfig& config);

  // Makes this the unpacked form of `layer`; nothing to do when it already is.
  absl::Status Unpack(const Model& model, int64_t layer, kernels::Stream& stream);

  // Valid after Unpack, until the next one.
  const kernels::PackedWeights& operator[](Matrix which) const {
    return matrices_[static_cast<size_t>(which)];
  }

  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }

 private:
  AlignedBuffer buffer_;
  std::array<kernels::PackedWeights, kNumMatrices> matrices_;
  int64_t layer_ = -1;  // which one is unpacked
};

}  // namespace anchorage::model
