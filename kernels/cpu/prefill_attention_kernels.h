// Per-instruction-set part of kernels/prefill_attention.h.
#pragma once

#include "kernels/prefill_attention.h"
#include "kernels/types.h"

namespace anchorage::kernels {

// The arrays of one call, as PrefillAttention takes them.
struct PrefillAttentionArrays {
  const float* q = nullptr;
  const Bf16* k = nullptr;
  const Bf16* v = nullptr;
  RopeView rope;
  float* out = nullptr;
  float* lse = nullptr;
};

// Query positions of one task: about 192 query rows (positions times the q heads of the KV head)
// share each key tile that a task unpacks and rotates.
inline int64_t QueryBlockLen(const PrefillAttentionShape& shape) {
  constexpr int64_t kRows = 192;
  const int64_t gqa_group_size = shape.num_q_heads / shape.num_kv_heads;
  return gqa_group_size < kRows ? kRows / gqa_group_size : 1;
}

struct PrefillAttentionKernels {
  // Floats of scratch of one task.
  int64_t (*scratch_floats)(const PrefillAttentionShape& shape);
  // Query rows [first, last) of the call, at most QueryBlockLen, for the q heads of one KV head.
  void (*attend)(const PrefillAttentionShape& shape, const PrefillAttentionArrays& arrays,
                 int kv_head, int64_t first, int64_t last, float* scratch);
};

extern const PrefillAttentionKernels kPortablePrefillAttention;
extern const PrefillAttentionKernels kAvx2PrefillAttention;

}  // namespace anchorage::kernels
