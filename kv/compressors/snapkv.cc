#include "kv/compressors/snapkv.h"

#include <span>
#include <vector>

#include "common/status.h"
#include "common/status_macros.h"
#include "kernels/anchor.h"
#include "kv/compressors/check_layer.h"
#include "kv/compressors/none.h"
#include "kv/compressors/retained_rows.h"
#include "kv/compressors/select_anchors.h"
#include "kv/kernel_status.h"
#include "kv/layer_cache.h"

namespace anchorage::kv {
namespace {

int64_t ScoreBytes(const LayerPlan& plan) {
  return plan.num_kv_heads * plan.prefix_len() * static_cast<int64_t>(sizeof(float));
}

// [H][n]: the best of the prefix, then the window.  scores [H, P]
std::vector<std::vector<uint32_t>> SelectRetained(const LayerPlan& plan, int layer,
                                                  std::span<const float> scores,
                                                  kernels::Stream& stream) {
  std::vector<std::vector<uint32_t>> positions(static_cast<size_t>(plan.num_kv_heads));
  const auto prefix_len = static_cast<size_t>(plan.prefix_len());
  stream.ParallelFor(plan.num_kv_heads, [&](int64_t head, int) {
    const auto from = static_cast<size_t>(head) * prefix_len;
    positions[head] = SelectAnchors(plan, layer, head, 0, scores.subspan(from, prefix_len));
    for (int64_t position = plan.prefix_len(); position < plan.seq_len; ++position) {
      positions[head].push_back(static_cast<uint32_t>(position));
    }
  });
  return positions;
}

}  // namespace

int64_t SnapKvCompressor::WorkspaceBytes(const LayerPlan& plan, int num_q_heads,
                                         int num_threads) const {
  return plan.layout == Layout::kDense ? 0 : ScoreBytes(plan);
}

absl::StatusOr<CompressedLayer> SnapKvCompressor::Compress(
    const LayerKv& layer, const kernels::ObservedRowsView& observed, const LayerPlan& plan,
    kernels::CodePacking packing, Workspace& workspace, kernels::Stream& stream) const {
  if (plan.layout == Layout::kDense) {
    return NoneCompressor().Compress(layer, observed, plan, packing, workspace, stream);
  }
  if (plan.layout != Layout::kSnapKv) {
    return Invalid("layer %d: a %s plan given to snapkv", layer.layer, LayoutName(plan.layout));
  }
  RETURN_IF_ERROR(CheckLayer(layer, plan, stream));
  ASSIGN_OR_RETURN(CompressedLayer result, NewCompressedLayer(layer.layer, plan));
  ASSIGN_OR_RETURN(std::byte* const bytes, workspace.Reserve(ScoreBytes(plan)));
  const std::span<float> scores(reinterpret_cast<float*>(bytes),
                                static_cast<size_t>(plan.num_kv_heads * plan.prefix_len()));
  RETURN_IF_ERROR(FromKernel(
      kernels::ScorePrefix(layer.kv, observed, layer.rope, static_cast<int>(plan.window_len),
                           static_cast<int>(options_.pool_width), scores.data(), stream),
      absl::StrFormat("layer %d, scoring", layer.layer)));
  StoreRetainedRows(layer, result.plan, SelectRetained(plan, layer.layer, scores, stream),
                    result.region.span(), stream);
  result.checksum = Checksum(result.region.span());
  return result;
}

}  // namespace anchorage::kv
