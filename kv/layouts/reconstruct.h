// The reference decode of every layout: what a stored layer stands for, dense and in float. Slow
// and obvious; the oracle of the decode kernel, and what `anchorage inspect` writes out.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/residual.h"
#include "kernels/types.h"
#include "kv/plan/plan.h"

namespace anchorage::kv {

// `rows` is plan.num_rows(): S, or the n of a layout that evicts. What was evicted stands for
// nothing, so it has no row; row i of a head is then the position that retained_pos [H, n] says.
struct ReconstructedLayer {
  std::vector<float> k;  // [H, rows, D] after RoPE
  std::vector<float> v;  // [H, rows, D]
};

// AnchorKV, arXiv 2608.02901, eq. 3; anchors and window exact. `packing` is what the compressor was
// given; the paper layout is always kLinear. The region must have passed VerifyLayer.
// InvalidArgument: `rope` is shorter than the layer or for another head_dim; the region's size is
// not the plan's.
absl::StatusOr<ReconstructedLayer> ReconstructLayer(const LayerPlan& plan,
                                                    std::span<const std::byte> region,
                                                    const kernels::RopeView& rope,
                                                    kernels::CodePacking packing);

}  // namespace anchorage::kv
