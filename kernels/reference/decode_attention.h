// kernels/decode_attention.h in plain loops and double precision: the oracle.
#pragma once

#include <vector>

#include "kernels/decode_attention.h"

namespace anchorage::kernels::reference {

// K after RoPE and V of one layer, rebuilt by eq. 3: [H, S, D].
struct RebuiltKv {
  std::vector<double> k;
  std::vector<double> v;
};
RebuiltKv Rebuild(const CompactCacheView& cache, const RopeView& rope);

// Rebuilds every cache and attends to it; out [count, num_q_heads, head_dim].
void DecodeAttention(const DecodeAttentionShape& shape, int64_t count,
                     const SequenceCache* sequences, const float* q, const RopeView& rope,
                     double* out);

}  // namespace anchorage::kernels::reference
