// The observation window: the last queries of a prompt, whose attention votes on what the
// compressed cache keeps (SnapKV, arXiv:2404.14469; AnchorKV, arXiv 2608.02901, eq. 14).
#pragma once

#include "kernels/types.h"

namespace anchorage::kernels {

// num_rows query rows at absolute positions seq_len - num_rows .. seq_len - 1.
struct ObservedRowsView {
  int num_rows = 0;
  int num_q_heads = 0;
  int head_dim = 0;
  const float* q = nullptr;    // [num_rows, num_q_heads, head_dim] after RoPE
  const float* lse = nullptr;  // [num_rows, num_q_heads] natural log-sum-exp of scaled scores
  const float* out = nullptr;  // [num_rows, num_q_heads, head_dim] attention output y
};

// The active layer's K (before RoPE) and V, bf16 [num_kv_heads, capacity, head_dim].
struct ActiveKvView {
  int num_kv_heads = 0;
  int head_dim = 0;
  int64_t seq_len = 0;
  int64_t capacity = 0;
  const Bf16* k = nullptr;
  const Bf16* v = nullptr;
};

}  // namespace anchorage::kernels
