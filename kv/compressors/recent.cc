#include "kv/compressors/recent.h"

#include <numeric>
#include <vector>

#include "common/status.h"
#include "common/status_macros.h"
#include "kv/compressors/check_layer.h"
#include "kv/compressors/none.h"
#include "kv/compressors/retained_rows.h"
#include "kv/layer_cache.h"

namespace anchorage::kv {
namespace {

// [n]: the first num_pins positions and the last ones.
std::vector<uint32_t> SelectRetained(const LayerPlan& plan) {
  std::vector<uint32_t> positions(static_cast<size_t>(plan.num_retained));
  const auto behind_pins = positions.begin() + plan.num_pins;
  std::iota(positions.begin(), behind_pins, 0u);
  std::iota(behind_pins, positions.end(),
            static_cast<uint32_t>(plan.seq_len - (plan.num_retained - plan.num_pins)));
  return positions;
}

}  // namespace

int64_t RecentCompressor::WorkspaceBytes(const LayerPlan& plan, int num_q_heads,
                                         int num_threads) const {
  return 0;
}

absl::StatusOr<CompressedLayer> RecentCompressor::Compress(
    const LayerKv& layer, const kernels::ObservedRowsView& observed, const LayerPlan& plan,
    kernels::CodePacking packing, Workspace& workspace, kernels::Stream& stream) const {
  if (plan.layout == Layout::kDense) {
    return NoneCompressor().Compress(layer, observed, plan, packing, workspace, stream);
  }
  if (plan.layout != Layout::kRecent) {
    return Invalid("layer %d: a %s plan given to recent", layer.layer, LayoutName(plan.layout));
  }
  RETURN_IF_ERROR(CheckLayer(layer, plan, stream));
  ASSIGN_OR_RETURN(CompressedLayer result, NewCompressedLayer(layer.layer, plan));
  const std::vector<std::vector<uint32_t>> positions(static_cast<size_t>(plan.num_kv_heads),
                                                     SelectRetained(plan));
  StoreRetainedRows(layer, result.plan, positions, result.region.span(), stream);
  result.checksum = Checksum(result.region.span());
  return result;
}

}  // namespace anchorage::kv
