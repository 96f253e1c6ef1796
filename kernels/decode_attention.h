// One-token attention over a sequence's cache: a prefix that is dense or in the compact AnchorKV
// layout (attended as it lies, never rebuilt), then the generated tokens, in one softmax.
//
// Values of compressed tokens are never rebuilt (AnchorKV, arXiv 2608.02901): sum_t p_t gamma_t
// V_a(t) is a scatter into num_anchors bins and one product with the anchors; residuals add up in
// the rotated domain over stored slots and one inverse Hadamard per head and step brings them back.
#pragma once

#include "kernels/compact_cache.h"
#include "kernels/stream.h"
#include "kernels/types.h"

namespace anchorage::kernels {

inline constexpr int kGeneratedBlockTokens = 32;

// The cache of one sequence in one layer.
struct SequenceCache {
  enum class Prefix : uint8_t { kDense, kCompact };
  Prefix prefix = Prefix::kDense;
  DenseCacheView dense;      // when kDense
  CompactCacheView compact;  // when kCompact
  // Generated tokens, positions S .. S + num_generated - 1. Block b holds tokens
  // 32 b .. 32 b + 31 as [2 (K after RoPE, V), H, 32, D] bf16.
  const Bf16* const* blocks = nullptr;
  int64_t num_generated = 0;
};

struct DecodeAttentionShape {
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;  // a multiple of 8
};

// Bytes of scratch for a call whose compact caches have at most `max_anchors` anchors per head,
// whatever the number and the length of the sequences. 0 for a shape that DecodeAttention refuses.
int64_t DecodeAttentionScratchBytes(const DecodeAttentionShape& shape, int max_anchors,
                                    int num_threads);

// out[i] = attention of q[i] over sequences[i]. Row i depends on its own query and cache alone.
//   q, out  [count, num_q_heads, head_dim]  f32, q after RoPE at the sequence's current position
//   out may not alias q
// kInvalidShape: a cache disagrees with the shape, a pointer is missing, the RoPE table ends before
// a compact prefix does, or a sequence is empty. kUnsupported: head_dim above 1024.
Status DecodeAttention(const DecodeAttentionShape& shape, int64_t count,
                       const SequenceCache* sequences, const float* q, const RopeView& rope,
                       float* out, std::byte* scratch, Stream& stream);

}  // namespace anchorage::kernels
