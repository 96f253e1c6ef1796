// Causal attention of a chunk of queries over the active layer's K and V, tile by tile with an
// online softmax (FlashAttention, arXiv:2205.14135).
#pragma once

#include "kernels/stream.h"
#include "kernels/types.h"

namespace anchorage::kernels {

struct PrefillAttentionShape {
  int num_q_heads = 0;
  int num_kv_heads = 0;  // divides num_q_heads
  int head_dim = 0;      // a multiple of 8
  int64_t q_start = 0;   // absolute position of the first query row
  int64_t q_len = 0;
  int64_t kv_capacity = 0;  // positions between two heads of k and v; >= q_start + q_len
};

// Bytes of scratch that one call needs with `num_threads`.
int64_t PrefillAttentionScratchBytes(const PrefillAttentionShape& shape, int num_threads);

// Query row r attends to positions 0 .. q_start + r, scaled by 1/sqrt(head_dim).
//   q    [q_len, num_q_heads, head_dim]              f32, after RoPE
//   k    [num_kv_heads, kv_capacity, head_dim]       bf16, before RoPE: rotated on load
//   v    [num_kv_heads, kv_capacity, head_dim]       bf16
//   out  [q_len, num_q_heads, head_dim]              f32, overwritten; may not alias q
//   lse  [q_len, num_q_heads]                        f32 natural-log-sum-exp of the scaled scores,
//                                                    or null
// Row-invariant: key tiles are aligned to absolute positions and merged in ascending order.
Status PrefillAttention(const PrefillAttentionShape& shape, const float* q, const Bf16* k,
                        const Bf16* v, const RopeView& rope, float* out, float* lse,
                        std::byte* scratch, Stream& stream);

}  // namespace anchorage::kernels
