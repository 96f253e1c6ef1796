// kernels/elementwise.h in plain loops and double precision: the oracle.
#pragma once

#include "kernels/types.h"

namespace anchorage::kernels::reference {

void RmsNorm(int64_t rows, int64_t dim, const float* x, const float* weight, float eps,
             double* out);
void SiluMul(int64_t count, const float* gate, const float* up, double* out);
// Rotates in place, angle of pair j at position p as the table states it.
void ApplyRope(int64_t rows, int num_heads, int64_t stride, const RopeView& rope, int64_t first,
               const int32_t* positions, double* x);

}  // namespace anchorage::kernels::reference
