#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/cpu/kernel_table.h"

namespace anchorage::kernels {
namespace {

// Rows of a task of Gemm: their slice of `a` stays in the second-level cache.
constexpr int64_t kGemmTaskRows = 192;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool IsWellFormed(const WeightView& weights) {
  return weights.rows >= 0 && weights.cols > 0 && WeightRowBytes(weights.type, weights.cols) > 0;
}

// Outputs of one task of Matmul: several tasks per thread, so that a thread that starts late or is
// held up leaves its share to the others, but none so short that taking it is what costs.
int64_t MatmulTaskOutputs(int64_t outputs, int num_threads) {
  constexpr int64_t kTasksPerThread = 8;
  const int64_t even = CeilDiv(outputs, num_threads * kTasksPerThread);
  return std::clamp<int64_t>(CeilDiv(even, 16) * 16, 32, 512);
}

// Outputs of one task of Gemm, whole panels: as many as share a slice of `a` usefully, fewer when
// the product is so small that the threads would not all have some.
int64_t GemmTaskOutputs(int64_t outputs, int64_t row_blocks, int num_threads) {
  constexpr int64_t kTasksPerThread = 6;
  const int64_t even = CeilDiv(outputs * row_blocks, num_threads * kTasksPerThread);
  return std::clamp<int64_t>(CeilDiv(even, kPanelOutputs), 2, 8) * kPanelOutputs;
}

}  // namespace

int64_t PackedWeightsSize(int64_t rows, int64_t cols) {
  return CeilDiv(rows, kPanelOutputs) * kPanelOutputs * cols;
}

Status PackWeights(const WeightView& weights, float* packed, Stream& stream) {
  if (!IsWellFormed(weights)) return Status::kInvalidShape;
  const MatmulKernels& kernels = *ActiveKernels().matmul;
  stream.ParallelFor(CeilDiv(weights.rows, kPanelOutputs), [&](int64_t panel, int) {
    const int64_t first = panel * kPanelOutputs;
    kernels.pack_panel(weights, first, packed + first * weights.cols);
  });
  return Status::kOk;
}

Status Gemm(int64_t m, const float* a, int64_t a_stride, const PackedWeights& weights, float* c,
            int64_t c_stride, bool accumulate, Stream& stream) {
  if (m < 0 || weights.rows < 0 || weights.cols <= 0 || a_stride < weights.cols ||
      c_stride < weights.rows) {
    return Status::kInvalidShape;
  }
  const MatmulKernels& kernels = *ActiveKernels().matmul;
  const int64_t row_blocks = CeilDiv(m, kGemmTaskRows);
  const int64_t step = GemmTaskOutputs(weights.rows, row_blocks, stream.num_threads());
  const int64_t column_groups = CeilDiv(weights.rows, step);
  stream.ParallelFor(row_blocks * column_groups, [&](int64_t task, int) {
    const int64_t row = task / column_groups * kGemmTaskRows;
    const int64_t output = task % column_groups * step;
    kernels.gemm(std::min(kGemmTaskRows, m - row), std::min(step, weights.rows - output),
                 weights.cols, a + row * a_stride, a_stride, weights.data + output * weights.cols,
                 c + row * c_stride + output, c_stride, accumulate);
  });
  return Status::kOk;
}

Status Matmul(int64_t m, const float* x, const WeightView& weights, float* out, bool accumulate,
              Stream& stream) {
  if (m < 0 || !IsWellFormed(weights)) return Status::kInvalidShape;
  if (m == 0) return Status::kOk;
  const MatmulKernels& kernels = *ActiveKernels().matmul;
  const int64_t step = MatmulTaskOutputs(weights.rows, stream.num_threads());
  stream.ParallelFor(CeilDiv(weights.rows, step), [&](int64_t task, int) {
    kernels.matmul(m, x, weights, task * step, std::min(weights.rows, (task + 1) * step), out,
                   accumulate);
  });
  return Status::kOk;
}

Status GatherRows(const WeightView& weights, const int32_t* row_ids, int64_t count, float* out) {
  if (count < 0 || !IsWellFormed(weights) || std::any_of(row_ids, row_ids + count, [&](int32_t id) {
        return id < 0 || id >= weights.rows;
      })) {
    return Status::kInvalidShape;
  }
  const MatmulKernels& kernels = *ActiveKernels().matmul;
  const int64_t row_bytes = WeightRowBytes(weights.type, weights.cols);
  for (int64_t i = 0; i < count; ++i) {
    kernels.unpack(weights.type, weights.cols, weights.data + row_ids[i] * row_bytes,
                   out + i * weights.cols);
  }
  return Status::kOk;
}

}  // namespace anchorage::kernels
