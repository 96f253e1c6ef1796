// Per-instruction-set part of kernels/matmul.h. Each function runs on one thread.
#pragma once

#include "kernels/types.h"

namespace anchorage::kernels {

// Outputs of one panel of packed weights, laid out [panel][col][kPanelOutputs]; the outputs that
// the last panel lacks are zero.
inline constexpr int kPanelOutputs = 16;

struct MatmulKernels {
  // out[i] = value i of a packed row, i in [0, count). The values are exact but for Q4_1, where
  // d q is exact and the sum d q + m is rounded once: every instruction set gives the same bits.
  void (*unpack)(WeightType type, int64_t count, const std::byte* row, float* out);

  // One panel of packed weights, from output row `first` on. panel [cols, kPanelOutputs].
  void (*pack_panel)(const WeightView& weights, int64_t first, float* panel);

  // c [m, n] (+)= a [m, cols] panels^T for the n outputs of consecutive panels.
  void (*gemm)(int64_t m, int64_t n, int64_t cols, const float* a, int64_t a_stride,
               const float* panels, float* c, int64_t c_stride, bool accumulate);

  // out[i, o] (+)= <x[i], weights[o]> for m rows and o in [first, last). x [m, cols] dense,
  // out [m, weights.rows] dense.
  void (*matmul)(int64_t m, const float* x, const WeightView& weights, int64_t first, int64_t last,
                 float* out, bool accumulate);
};

extern const MatmulKernels kPortableMatmul;
extern const MatmulKernels kAvx2Matmul;

}  // namespace anchorage::kernels
