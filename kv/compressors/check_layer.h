// What every compressor does first.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/stream.h"
#include "kv/compressor.h"

namespace anchorage::kv {

// InvalidArgument: the plan does not fit the layer, or NaN or Inf in K or V, with the first
// position, K before V, and the lowest head.
absl::Status CheckLayer(const LayerKv& layer, const LayerPlan& plan, kernels::Stream& stream);

// A zeroed region for the plan. ResourceExhausted: no memory.
absl::StatusOr<CompressedLayer> NewCompressedLayer(int layer, const LayerPlan& plan);

}  // namespace anchorage::kv
