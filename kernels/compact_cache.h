// One layer of one sequence in the compact AnchorKV layout, as pointers into its region.
// Everything is per KV head h of H, over S prompt positions: the last W are the window, the first
// P = S - W the prefix; k anchors per head = the first positions (pins) + fitted ones, which are no
// position's row + the window.
//
// A prefix position t stands for (AnchorKV, arXiv 2608.02901, eq. 3)
//   K_t = R_t(gamma K_a) + s T^T M^T lev(c), c coded from R_t r      V_t = gamma V_a + s U^T lev(c)
// with gamma from CompactGamma and the second term only where the mask has a bit. A pinned position
// is its own anchor with gamma 1, whatever its projection code says; it has no mask bit. Where the
// fine mask has a bit too there are four bits for each coordinate of keys and values: a second code
// with a scale of its own is added, and a key's first one is of the values' kind too. Whoever fills
// a region has checked idx < k, the slot numbers, the anchors' exponents and the order of the
// pairs: kernels follow them unchecked.
#pragma once

#include <bit>
#include <cmath>

#include "kernels/types.h"

namespace anchorage::kernels {

inline constexpr int kMaxCompactAnchors = 512;   // per head
inline constexpr int kIndexGroup = 8;            // positions whose indices fill whole bytes
inline constexpr int kNumProjectionLevels = 16;  // four bits a projection

// Bits of an index among `num_anchors` anchors.
constexpr int IndexBits(int64_t num_anchors) {
  return num_anchors <= 2 ? 1 : std::bit_width(static_cast<uint64_t>(num_anchors - 1));
}

// Bytes of a head's indices and of its projections.
constexpr int64_t IndexRowBytes(int64_t prefix_len, int64_t num_anchors) {
  return (prefix_len + kIndexGroup - 1) / kIndexGroup * IndexBits(num_anchors);
}
constexpr int64_t ProjectionRowBytes(int64_t prefix_len) { return (prefix_len + 1) / 2; }

// Index of position t of a head's row: eight positions fill `bits` bytes, the first one the lowest
// bits. bits <= 9, so an index never lies in more than two bytes.
[[gnu::always_inline]] inline uint16_t LoadIndex(const uint8_t* row, int bits, int64_t t) {
  const int first_bit = static_cast<int>(t % kIndexGroup) * bits;
  const uint8_t* byte = row + t / kIndexGroup * bits + first_bit / 8;
  const int shift = first_bit % 8;
  unsigned value = byte[0];
  if (shift + bits > 8) value |= static_cast<unsigned>(byte[1]) << 8;
  return static_cast<uint16_t>((value >> shift) & ((1u << bits) - 1));
}

// Code of position t: the lower half of its byte for even t.
[[gnu::always_inline]] inline uint8_t LoadProjection(const uint8_t* row, int64_t t) {
  return (row[t / 2] >> (t % 2 * 4)) & 15;
}

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

// 1 / |anchor|, 0 for a zero anchor.
[[gnu::always_inline]] inline float InverseNorm(const Bf16* anchor, int head_dim) {
  const float norm = AnchorNorm(anchor, head_dim);
  return norm > 0.0f ? 1.0f / norm : 0.0f;
}

// The gamma that a compact cache stands for, used by whoever encodes residuals and by the decoder:
// r = x - CompactGamma(level of the code, InverseNorm(anchor)) * anchor.
[[gnu::always_inline]] inline float CompactGamma(float level, float inverse_norm) {
  return level * inverse_norm;
}

// Residual codes of one side, where the mask has a bit. num_words = ceil(P / 64).
struct ResidualStage {
  const uint64_t* mask = nullptr;    // [H, num_words] bit b of word w: 64 w + b has a code
  const uint32_t* prefix = nullptr;  // [H, num_words] set bits of this head before the word
  const uint32_t* offset = nullptr;  // [H + 1] first slot of each head; last = slots
  const uint8_t* codes = nullptr;    // [slots, D / 4] 2-bit codes, planar (see residual.h)
  const Bf16* scale = nullptr;       // [slots]
};

// One side (K or V) of the compact layout.
struct CompactSide {
  const int8_t* anchor = nullptr;  // [H, k, D] (anchor_code.h); keys before RoPE; window last
  const int8_t* anchor_exponent = nullptr;  // [H, k]
  const uint8_t* idx = nullptr;       // [H, IndexRowBytes] anchor of each position (LoadIndex)
  const uint8_t* proj = nullptr;      // [H, ProjectionRowBytes] code of <x, x_a>/|x_a|
  const float* proj_level = nullptr;  // [H, 16] what the codes stand for
  ResidualStage coarse;
  ResidualStage fine;  // its mask is null when no position has a second code
};

struct CompactCacheView {
  int num_kv_heads = 0;
  int head_dim = 0;
  int64_t seq_len = 0;                  // S
  int num_anchors = 0;                  // k, per head, window included
  int window_len = 0;                   // W
  const uint8_t* pair_order = nullptr;  // [H, D / 2] of keys with one code (key_code.h)
  const float* key_gain = nullptr;      // [H, 2]
  int num_pins = 0;                     // position t < num_pins is anchor t; at most k - W and P
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
