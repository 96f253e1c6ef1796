// One layer of one sequence in the compact AnchorKV layout, as pointers into its region.
// Everything is per KV head h of H, over S prompt positions: the last W are the window, the first
// P = S - W the prefix; k anchors per head = k - W selected positions (ascending) + the window.
#pragma once

#include "kernels/types.h"

namespace anchorage::kernels {

// One side (K or V) of the compact layout. num_words = ceil(P / 64).
struct CompactSide {
  const Bf16* anchor = nullptr;        // [H, k, D]; keys before RoPE; window rows are last
  const uint8_t* idx = nullptr;        // [H, P] low byte of the anchor index
  const uint64_t* idx_high = nullptr;  // [H, num_words] bit 8 of the index; null when k <= 256
  const int8_t* proj = nullptr;        // [H, P] <x, x_a>/|x_a| in units of step
  const float* proj_step = nullptr;    // [H]
  const uint64_t* mask = nullptr;      // [H, num_words] bit b of word w: 64 w + b has a residual
  const uint32_t* prefix = nullptr;    // [H, num_words] set bits of this head before the word
  const uint32_t* offset = nullptr;    // [H + 1] first slot of each head; last = slots
  const uint8_t* codes = nullptr;      // [slots, D / 4] 2-bit codes, planar (see residual.h)
  const Bf16* scale = nullptr;         // [slots]
};

struct CompactCacheView {
  int num_kv_heads = 0;
  int head_dim = 0;
  int64_t seq_len = 0;                   // S
  int num_anchors = 0;                   // k, per head, window included
  int window_len = 0;                    // W
  const uint32_t* anchor_pos = nullptr;  // [H, k - W] ascending; these positions are exact
  CompactSide key;
  CompactSide value;

  int64_t prefix_len() const { return seq_len - window_len; }
  int64_t num_words() const { return (prefix_len() + 63) / 64; }
};

// A dense layer: K after RoPE and V, bf16 [H, S, D].
struct DenseCacheView {
  const Bf16* k = nullptr;
  const Bf16* v = nullptr;
  int64_t seq_len = 0;
};

}  // namespace anchorage::kernels
