// Per-instruction-set part of kernels/decode_attention.h: one tile of tokens of one KV head.
#pragma once

#include "kernels/types.h"

namespace anchorage::kernels {

// A tile starts at a multiple of this in the sequence: the bits of a mask word.
inline constexpr int kDecodeTile = 64;
inline constexpr int kNumStages = 2;  // of a residual's code
// Query rows that pass a tile together.
inline constexpr int kRowBlock = 4;

// Halves and quarters of a head's coordinates are padded to whole vectors with zeros, so that no
// loop has a tail: RoPE pairs stand at [half, half], the planes of a 2-bit code at 4 x [quarter].
constexpr int PaddedHalf(int head_dim) { return (head_dim / 2 + 7) / 8 * 8; }
constexpr int PaddedQuarter(int head_dim) { return (head_dim / 4 + 7) / 8 * 8; }

// Up to four query rows of one KV head and their running softmax. Arrays have kRowBlock rows.
struct RowBlock {
  int num_rows = 0;
  int head_dim = 0;
  const float* q = nullptr;  // [4, head_dim] scaled by 1/sqrt(head_dim)
  float* max = nullptr;      // [4]
  float* sum = nullptr;      // [4]
  float* out = nullptr;      // [4, head_dim]
  // For the compact layout:
  float* q_tile = nullptr;           // [4, 2 half] q rotated back to the tile's first position
  const float* q_rotated = nullptr;  // [4, 4 quarter] U q
  const float* q_spread = nullptr;   // [4, 4 quarter] what one code of a key meets (key_code.h)
  float* bins = nullptr;             // [num_anchors, 4] weight of each value anchor
  float* residual = nullptr;         // [4, 4 quarter] weighted value residuals, still rotated
};

// Residuals of one side: the first one of a tile, in the order of its mask bits.
struct ResidualRun {
  uint64_t mask = 0;
  const uint8_t* codes = nullptr;  // [bits of mask, head_dim / 4] planar
  const Bf16* scale = nullptr;
};

struct CompactTile {
  int count = 0;
  // cos and sin of the tile's first position.
  const float* cos = nullptr;
  const float* sin = nullptr;
  uint16_t key_anchor[kDecodeTile];
  uint16_t value_anchor[kDecodeTile];
  float key_gamma[kDecodeTile];
  float value_gamma[kDecodeTile];
  // First codes, then second ones.
  ResidualRun key_residuals[kNumStages];
  ResidualRun value_residuals[kNumStages];
};

// What all tiles of one KV head share.
struct CompactHead {
  int num_anchors = 0;
  const float* key_anchors = nullptr;   // [num_anchors, 2 half] before RoPE
  const Bf16* value_anchors = nullptr;  // [num_anchors, head_dim]
  const float* cos = nullptr;           // [kDecodeTile, half] of positions 0 .. 63: the offsets
  const float* sin = nullptr;           // inside a tile
};

struct DecodeKernels {
  // [count, head_dim] bf16 -> [count, 2 half] f32.
  void (*load_halves)(int count, int head_dim, const Bf16* x, float* out);
  // Adds `count` <= kDecodeTile tokens to the rows' state. k, v [count, head_dim], k after RoPE.
  void (*dense_tile)(int count, const Bf16* k, const Bf16* v, const RowBlock& rows);
  // Adds a tile to max, sum, bins and residual.
  void (*compact_tile)(const CompactHead& head, const CompactTile& tile, const RowBlock& rows);
  // out = sum_a bins[a] V_a.
  void (*collect_bins)(const CompactHead& head, const RowBlock& rows);
};

extern const DecodeKernels kPortableDecode;
extern const DecodeKernels kAvx2Decode;

}  // namespace anchorage::kernels
