#include "kv/compressors/none.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "kv/compressors/check_layer.h"
#include "kv/compressors/dense_row.h"
#include "kv/layer_cache.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {
namespace {

constexpr int64_t kRowsPerTask = 64;

}  // namespace

int64_t NoneCompressor::WorkspaceBytes(const LayerPlan& plan, int num_q_heads,
                                       int num_threads) const {
  return 0;
}

absl::StatusOr<CompressedLayer> NoneCompressor::Compress(
    const LayerKv& layer, const kernels::ObservedRowsView& observed, const LayerPlan& plan,
    kernels::CodePacking packing, Workspace& workspace, kernels::Stream& stream) const {
  if (plan.layout != Layout::kDense) {
    return Invalid("layer %d: a %s plan given to the dense compressor", layer.layer,
                   LayoutName(plan.layout));
  }
  RETURN_IF_ERROR(CheckLayer(layer, plan, stream));
  ASSIGN_OR_RETURN(CompressedLayer result, NewCompressedLayer(layer.layer, plan));

  const kernels::ActiveKvView& kv = layer.kv;
  const int64_t dim = plan.head_dim;
  kernels::Bf16* const keys =
      TensorSpan<kernels::Bf16>(result.plan, result.region.span(), "k").data();
  kernels::Bf16* const values =
      TensorSpan<kernels::Bf16>(result.plan, result.region.span(), "v").data();
  const int64_t tasks_per_head = (plan.seq_len + kRowsPerTask - 1) / kRowsPerTask;
  stream.ParallelFor(plan.num_kv_heads * tasks_per_head, [&](int64_t task, int) {
    const int64_t head = task / tasks_per_head;
    const int64_t first = task % tasks_per_head * kRowsPerTask;
    const int64_t end = std::min(first + kRowsPerTask, plan.seq_len);
    for (int64_t position = first; position < end; ++position) {
      StoreDenseKey(layer, head, position, keys + (head * plan.seq_len + position) * dim);
    }
    std::copy_n(kv.v + (head * kv.capacity + first) * dim, (end - first) * dim,
                values + (head * plan.seq_len + first) * dim);
  });
  result.checksum = Checksum(result.region.span());
  return result;
}

}  // namespace anchorage::kv
