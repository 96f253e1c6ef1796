// The row-wise operations between the matrix products of a Llama layer.
#pragma once

#include "kernels/stream.h"
#include "kernels/types.h"

namespace anchorage::kernels {

// out[r, :] = x[r, :] / sqrt(mean(x[r, :]^2) + eps) * weight. x, out [rows, dim]; weight [dim].
// In place when out == x.
Status RmsNorm(int64_t rows, int64_t dim, const float* x, const float* weight, float eps,
               float* out, Stream& stream);

// out = gate / (1 + exp(-gate)) * up, element by element: SiLU-GLU. In place when out == gate.
Status SiluMul(int64_t count, const float* gate, const float* up, float* out, Stream& stream);

// Rotates each head of each row by its position. x [rows, num_heads, head_dim] with row stride
// `stride` floats, in place; row r has absolute position positions[r] (or first + r when
// positions is null).
// kInvalidShape: a position outside the table, or head_dim disagrees with it.
Status ApplyRope(int64_t rows, int num_heads, int64_t stride, const RopeView& rope, int64_t first,
                 const int32_t* positions, float* x, Stream& stream);

// out[i] = bf16(x[i]) and back.
void ToBf16Row(int64_t count, const float* x, Bf16* out);
void ToFloatRow(int64_t count, const Bf16* x, float* out);

// First index in [0, count) whose value is NaN or Inf, or -1.
int64_t FirstNonFinite(int64_t count, const Bf16* x);

}  // namespace anchorage::kernels
