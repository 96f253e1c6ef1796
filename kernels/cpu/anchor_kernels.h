// Per-instruction-set part of kernels/anchor.h: blocks of prefix positions of one KV head.
#pragma once

#include "kernels/anchor.h"
#include "kernels/types.h"

namespace anchorage::kernels {

inline constexpr int kAnchorMaxHeadDim = 256;
// Most positions that one call takes.
inline constexpr int kAnchorBlock = 128;

// The observation rows that share one KV head: row w * group + g is query head g of position w.
struct ObservedHead {
  int num_rows = 0;  // positions x group
  int group = 0;
  int head_dim = 0;
  // Of position 0 and query head 0 of the group; the next position is `stride` vectors further.
  const float* q = nullptr;
  const float* lse = nullptr;
  const float* out = nullptr;
  int64_t stride = 0;

  int64_t Vector(int row) const { return row / group * stride + row % group; }
};

// cos and sin of the block's first position; rows of head_dim / 2.
struct RopeRows {
  const float* cos = nullptr;
  const float* sin = nullptr;
};

// One side (K or V) of the block's positions, and what they are rebuilt from.
struct AnchoredBlock {
  const Bf16* x = nullptr;        // [count, head_dim]
  const Bf16* anchors = nullptr;  // [num_anchors, head_dim] of the head
  const uint16_t* idx = nullptr;  // [count]
  const float* gamma = nullptr;   // [count]
};

struct AnchorKernels {
  // AssignAnchors for `count` <= kAnchorBlock rows.
  void (*assign_block)(int count, int head_dim, int num_anchors, const Bf16* x, const Bf16* anchors,
                       uint16_t* idx, float* proj);
  // scores[t] = mean over rows of the softmax weight of key t, before pooling.
  void (*score_block)(const ObservedHead& rows, int count, const Bf16* k, const RopeRows& rope,
                      float* scores);
  // ResidualUtilities for `count` <= kAnchorBlock positions.
  void (*utility_block)(const ObservedHead& rows, int count, const AnchoredBlock& key,
                        const AnchoredBlock& value, const RopeRows& rope,
                        const ResidualWorth& key_worth, const ResidualWorth& value_worth);
};

extern const AnchorKernels kPortableAnchor;
extern const AnchorKernels kAvx2Anchor;

}  // namespace anchorage::kernels
