// Matrix products with the model's weights. Row-invariant: a row of the result depends on that row
// of the input and on the weights alone, never on m, the other rows or the number of threads.
#pragma once

#include "kernels/stream.h"
#include "kernels/types.h"

namespace anchorage::kernels {

// Weights unpacked to float in the panel order of the GEMM micro-kernel.
struct PackedWeights {
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs
  const float* data = nullptr;
};

// Floats that PackWeights writes for a [rows, cols] matrix.
int64_t PackedWeightsSize(int64_t rows, int64_t cols);

// Unpacks `weights`, as WeightType states them, into `packed` [PackedWeightsSize], 64-byte aligned.
// kInvalidShape: cols is no multiple of the type's block.
Status PackWeights(const WeightView& weights, float* packed, Stream& stream);

// c = a w^T, or c += a w^T when `accumulate`. For many rows (prefill).
//   a [m, cols] with row stride a_stride; c [m, rows] with row stride c_stride; f32
// One fixed chain of multiply-adds over cols per output, from c when `accumulate`; fused where the
// instruction set has them.
Status Gemm(int64_t m, const float* a, int64_t a_stride, const PackedWeights& weights, float* c,
            int64_t c_stride, bool accumulate, Stream& stream);

// The same product straight from the stored weights, for few rows (decode, logits): one pass over
// the weights for all rows. x [m, cols], out [m, rows], both dense; f32 activations against
// unpacked weights. Eight fixed chains over cols per output, added in one fixed order, so the last
// bits may differ from Gemm's. Any m >= 0; the bits of a row do not depend on m.
Status Matmul(int64_t m, const float* x, const WeightView& weights, float* out, bool accumulate,
              Stream& stream);

// out[i, :] = weights[row_ids[i], :] as float: the embedding lookup.
// kInvalidShape: an id outside [0, rows).
Status GatherRows(const WeightView& weights, const int32_t* row_ids, int64_t count, float* out);

}  // namespace anchorage::kernels
