#include "kv/compressors/retained_rows.h"

#include <algorithm>

#include "kv/compressors/dense_row.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {
namespace {

constexpr int64_t kRowsPerTask = 64;

}  // namespace

void StoreRetainedRows(const LayerKv& layer, const LayerPlan& plan,
                       const std::vector<std::vector<uint32_t>>& positions,
                       std::span<std::byte> region, kernels::Stream& stream) {
  const int64_t dim = plan.head_dim;
  const int64_t retained = plan.num_retained;
  const auto keys = TensorSpan<kernels::Bf16>(plan, region, "retained_k");
  const auto values = TensorSpan<kernels::Bf16>(plan, region, "retained_v");
  const auto stored_positions = TensorSpan<uint32_t>(plan, region, "retained_pos");
  const int64_t tasks_per_head = (retained + kRowsPerTask - 1) / kRowsPerTask;
  stream.ParallelFor(plan.num_kv_heads * tasks_per_head, [&](int64_t task, int) {
    const int64_t head = task / tasks_per_head;
    const int64_t first = task % tasks_per_head * kRowsPerTask;
    const int64_t end = std::min(first + kRowsPerTask, retained);
    for (int64_t i = first; i < end; ++i) {
      const int64_t row = head * retained + i;
      const uint32_t position = positions[head][i];
      stored_positions[row] = position;
      StoreDenseKey(layer, head, position, &keys[row * dim]);
      std::copy_n(layer.kv.v + (head * layer.kv.capacity + position) * dim, dim,
                  &values[row * dim]);
    }
  });
}

}  // namespace anchorage::kv
