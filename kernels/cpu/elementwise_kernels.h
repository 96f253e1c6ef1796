// Per-instruction-set part of kernels/elementwise.h.
#pragma once

#include "kernels/types.h"

namespace anchorage::kernels {

struct ElementwiseKernels {
  // One row: out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i].
  void (*rms_norm_row)(int64_t dim, const float* x, const float* weight, float eps, float* out);
  // out[i] = silu(gate[i]) * up[i].
  void (*silu_mul)(int64_t count, const float* gate, const float* up, float* out);
  // Rotates the pairs (x[j], x[j + half]) by cos[j], sin[j].
  void (*rotate_head)(int half, const float* cos, const float* sin, float* x);
  void (*to_bf16)(int64_t count, const float* x, Bf16* out);
  void (*to_float)(int64_t count, const Bf16* x, float* out);
  // First index whose value is NaN or Inf, or -1.
  int64_t (*first_non_finite)(int64_t count, const Bf16* x);
};

extern const ElementwiseKernels kPortableElementwise;
extern const ElementwiseKernels kAvx2Elementwise;

}  // namespace anchorage::kernels
