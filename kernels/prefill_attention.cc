#include "kernels/prefill_attention.h"

#include <algorithm>

#include "kernels/cpu/kernel_table.h"

namespace anchorage::kernels {
namespace {

bool IsWellFormed(const PrefillAttentionShape& shape) {
  return shape.num_kv_heads > 0 && shape.num_q_heads > 0 &&
         shape.num_q_heads % shape.num_kv_heads == 0 && shape.head_dim > 0 &&
         shape.head_dim % 8 == 0 && shape.q_start >= 0 && shape.q_len >= 0 &&
         shape.kv_capacity >= shape.q_start + shape.q_len;
}

}  // namespace

int64_t PrefillAttentionScratchBytes(const PrefillAttentionShape& shape, int num_threads) {
  if (!IsWellFormed(shape)) return 0;
  return ActiveKernels().prefill_attention->scratch_floats(shape) * num_threads *
         static_cast<int64_t>(sizeof(float));
}

Status PrefillAttention(const PrefillAttentionShape& shape, const float* q, const Bf16* k,
                        const Bf16* v, const RopeView& rope, float* out, float* lse,
                        std::byte* scratch, Stream& stream) {
  if (!IsWellFormed(shape) || rope.head_dim != shape.head_dim ||
      rope.num_positions < shape.q_start + shape.q_len) {
    return Status::kInvalidShape;
  }
  const PrefillAttentionKernels& kernels = *ActiveKernels().prefill_attention;
  const PrefillAttentionArrays arrays = {q, k, v, rope, out, lse};
  const int64_t block_len = QueryBlockLen(shape);
  const int64_t num_blocks = (shape.q_len + block_len - 1) / block_len;
  const int64_t scratch_floats = kernels.scratch_floats(shape);

  stream.ParallelFor(num_blocks * shape.num_kv_heads, [&](int64_t task, int worker) {
    // Later queries see more keys: the longest tasks first, so that the threads end together.
    const int64_t first = (num_blocks - 1 - task / shape.num_kv_heads) * block_len;
    kernels.attend(shape, arrays, static_cast<int>(task % shape.num_kv_heads), first,
                   std::min(shape.q_len, first + block_len),
                   reinterpret_cast<float*>(scratch) + worker * scratch_floats);
  });
  return Status::kOk;
}

}  // namespace anchorage::kernels
