// One layer of one sequence in the compact AnchorKV layout, as pointers into its region.
// Everything is per KV head h of H, over S prompt positions: the last W are the window, the first
// P = S - W the prefix; k anchors per head = k - W selected positions (ascending) + the window.
//
// A prefix position t stands for (AnchorKV, arXiv 2608.02901, eq. 3)
//   K_t = R_t(gamma K_a) + s U^T lev(c), c coded from U R_t r      V_t = gamma V_a + s U^T lev(c)
// with gamma from CompactGamma and the second term only where the mask has a bit. A position listed
// in anchor_pos has gamma 1 and points at itself, whatever its projection code says; it has no mask
// bit. Whoever fills a region has checked idx < k, the order of anchor_pos and the slot numbers:
// kernels follow them unchecked.
#pragma once

#include <cmath>

#include "kernels/types.h"

namespace anchorage::kernels {

// |anchor| of a stored anchor. One order on every machine: lane j of 8 adds x[8 i + j]^2 in
// ascending i, then the lanes are added in ascending j. A product of two bf16 is exact in a float,
// so it makes no difference whether multiply and add are fused. head_dim is a multiple of 8.
[[gnu::always_inline]] inline float AnchorNorm(const Bf16* anchor, int head_dim) {
  float lanes[8] = {};
  for (int i = 0; i < head_dim; i += 8) {
    for (int j = 0; j < 8; ++j) {
      const float x = ToFloat(anchor[i + j]);
      lanes[j] += x * x;
    }
  }
  float sum = 0.0f;
  for (float lane : lanes) sum += lane;
  return std::sqrt(sum);
}

// What one unit of a projection code adds to gamma. A zero anchor has unit 0.
[[gnu::always_inline]] inline float GammaUnit(float proj_step, float anchor_norm) {
  return anchor_norm > 0.0f ? proj_step / anchor_norm : 0.0f;
}

// The gamma that a compact cache stands for, used by whoever encodes residuals and by the decoder:
// r = x - CompactGamma(code, GammaUnit(step, AnchorNorm(anchor))) * anchor.
[[gnu::always_inline]] inline float CompactGamma(int8_t proj_code, float unit) {
  return static_cast<float>(proj_code) * unit;
}

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
