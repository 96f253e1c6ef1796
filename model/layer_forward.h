// The two halves of a Llama layer around its attention, shared by prefill and decode. `matrices`
// says where the products get their weights: from unpacked panels for many rows, or straight from
// the file's bytes for few. Each is row-invariant; the two differ in the last bits.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/stream.h"
#include "model/layer_scratch.h"
#include "model/model.h"
#include "model/packed_layer.h"

namespace anchorage::model {

struct LayerMatrices {
  const LayerWeights* stored = nullptr;  // norms always come from here
  const PackedLayer* packed = nullptr;   // null: products straight from `stored`
};

// scratch.{q, k, v} = projections of RMSNorm(hidden), before RoPE. hidden [rows, d] f32.
absl::Status ProjectQkv(const ModelConfig& config, const LayerMatrices& matrices, int64_t rows,
                        const float* hidden, LayerScratch& scratch, kernels::Stream& stream);

// hidden += Wo scratch.attention, then hidden += FFN(RMSNorm(hidden)). hidden [rows, d] f32.
absl::Status FinishLayer(const ModelConfig& config, const LayerMatrices& matrices, int64_t rows,
                         float* hidden, LayerScratch& scratch, kernels::Stream& stream);

}  // namespace anchorage::model
