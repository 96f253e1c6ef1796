// One layer as AnchorKV without one of its ideas would keep it, at the same bytes: slow, obvious
// and straight to the rows that the cache would stand for. With nothing taken away it is the oracle
// of the served compressor.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/ablation/ablation.h"
#include "kernels/observed_rows.h"
#include "kernels/stream.h"
#include "kv/compressor.h"
#include "kv/layouts/reconstruct.h"
#include "kv/plan/plan.h"

namespace anchorage::eval {

struct AblatedLayer {
  kv::ReconstructedLayer rows;                // K after RoPE and V, [H, S, D]
  std::array<std::vector<uint8_t>, 2> codes;  // of K and V, [H, P]: residual codes of each position
};

// `plan` is PlanLayer's for `options`, and these are PlanOf(ablation, ...). Anchors, indices and
// projections are rounded as the layout stores them.
// InvalidArgument: the plan is not compact or does not fit the layer; NaN or Inf in K or V, with
// layer and position. ResourceExhausted: no memory.
absl::StatusOr<AblatedLayer> AblateLayer(const kv::LayerKv& layer,
                                         const kernels::ObservedRowsView& observed,
                                         const kv::LayerPlan& plan, const kv::PlanOptions& options,
                                         const Ablation& ablation, kernels::Stream& stream);

}  // namespace anchorage::eval
