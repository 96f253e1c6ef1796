// RoPE on one head's vector: pair j is (x[j], x[j + D/2]), turned by +angle.
#pragma once

#include "kernels/types.h"

namespace anchorage::kv {

// x [rope.head_dim], in place. Precondition: 0 <= position < rope.num_positions.
inline void RotateRow(const kernels::RopeView& rope, int64_t position, float* x) {
  const int half = rope.head_dim / 2;
  const float* cos = rope.cos + position * half;
  const float* sin = rope.sin + position * half;
  for (int j = 0; j < half; ++j) {
    const float low = x[j];
    const float high = x[j + half];
    x[j] = low * cos[j] - high * sin[j];
    x[j + half] = high * cos[j] + low * sin[j];
  }
}

}  // namespace anchorage::kv
