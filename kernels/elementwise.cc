#include "kernels/elementwise.h"

#include <algorithm>

#include "kernels/cpu/kernel_table.h"

namespace anchorage::kernels {
namespace {

// Floats that are worth handing to another thread.
constexpr int64_t kFloatsPerTask = 16384;

// Calls body(first, last) on consecutive ranges of [0, count), each about kFloatsPerTask floats.
template <typename Body>
void ForRanges(int64_t count, int64_t floats_each, Stream& stream, const Body& body) {
  const int64_t step = std::max<int64_t>(1, kFloatsPerTask / std::max<int64_t>(1, floats_each));
  stream.ParallelFor((count + step - 1) / step, [&](int64_t task, int) {
    body(task * step, std::min(count, (task + 1) * step));
  });
}

bool PositionsFit(int64_t rows, int64_t first, const int32_t* positions, int64_t num_positions) {
  if (positions == nullptr) return first >= 0 && rows <= num_positions - first;
  return std::all_of(positions, positions + rows,
                     [&](int32_t p) { return p >= 0 && p < num_positions; });
}

}  // namespace

Status RmsNorm(int64_t rows, int64_t dim, const float* x, const float* weight, float eps,
               float* out, Stream& stream) {
  if (rows < 0 || dim <= 0) return Status::kInvalidShape;
  const ElementwiseKernels& kernels = *ActiveKernels().elementwise;
  ForRanges(rows, dim, stream, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      kernels.rms_norm_row(dim, x + row * dim, weight, eps, out + row * dim);
    }
  });
  return Status::kOk;
}

Status SiluMul(int64_t count, const float* gate, const float* up, float* out, Stream& stream) {
  if (count < 0) return Status::kInvalidShape;
  const ElementwiseKernels& kernels = *ActiveKernels().elementwise;
  ForRanges(count, 1, stream, [&](int64_t first, int64_t last) {
    kernels.silu_mul(last - first, gate + first, up + first, out + first);
  });
  return Status::kOk;
}

Status ApplyRope(int64_t rows, int num_heads, int64_t stride, const RopeView& rope, int64_t first,
                 const int32_t* positions, float* x, Stream& stream) {
  if (rows < 0 || num_heads < 0 || rope.head_dim <= 0 || rope.head_dim % 2 != 0 ||
      stride < int64_t{num_heads} * rope.head_dim ||
      !PositionsFit(rows, first, positions, rope.num_positions)) {
    return Status::kInvalidShape;
  }
  const ElementwiseKernels& kernels = *ActiveKernels().elementwise;
  const int half = rope.head_dim / 2;
  ForRanges(rows, stride, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t position = positions == nullptr ? first + row : positions[row];
      for (int head = 0; head < num_heads; ++head) {
        kernels.rotate_head(half, rope.cos + position * half, rope.sin + position * half,
                            x + row * stride + int64_t{head} * rope.head_dim);
      }
    }
  });
  return Status::kOk;
}

void ToBf16Row(int64_t count, const float* x, Bf16* out) {
  ActiveKernels().elementwise->to_bf16(count, x, out);
}

void ToFloatRow(int64_t count, const Bf16* x, float* out) {
  ActiveKernels().elementwise->to_float(count, x, out);
}

int64_t FirstNonFinite(int64_t count, const Bf16* x) {
  return ActiveKernels().elementwise->first_non_finite(count, x);
}

}  // namespace anchorage::kernels
