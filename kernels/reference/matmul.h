// kernels/matmul.h in plain loops and double precision: the oracle.
#pragma once

#include "kernels/types.h"

namespace anchorage::kernels::reference {

// Weight [row, col] as stored, by the formula of its type; the sum d q + m is not rounded.
double Weight(const WeightView& weights, int64_t row, int64_t col);

// out[i, o] = sum_k x[i, k] w[o, k]. x [m, cols] with row stride x_stride, out [m, rows] dense.
void Matmul(int64_t m, const float* x, int64_t x_stride, const WeightView& weights, double* out);

// out[i, o] = sum_k |x[i, k]| |w[o, k]|: what a rounding error of Matmul is relative to.
void MatmulMagnitude(int64_t m, const float* x, int64_t x_stride, const WeightView& weights,
                     double* out);

}  // namespace anchorage::kernels::reference
