// The running result of one query's softmax attention over part of its keys: with m the largest
// score so far, sum = sum_t exp(s_t - m) and out = sum_t exp(s_t - m) v_t. States of disjoint parts
// merge into that of their union (FlashAttention, arXiv:2205.14135).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace anchorage::kernels {

struct AttentionState {
  int head_dim = 0;
  float* max = nullptr;  // any reference near the largest score; -inf when nothing was seen
  float* sum = nullptr;
  float* out = nullptr;  // [head_dim]

  void Init() const {
    *max = -std::numeric_limits<float>::infinity();
    *sum = 0.0f;
    std::fill(out, out + head_dim, 0.0f);
  }

  void Merge(const AttentionState& other) const {
    if (*other.sum == 0.0f) return;
    const float merged = std::max(*max, *other.max);
    const float keep = std::exp(*max - merged);
    const float take = std::exp(*other.max - merged);
    *max = merged;
    *sum = *sum * keep + *other.sum * take;
    for (int d = 0; d < head_dim; ++d) out[d] = out[d] * keep + other.out[d] * take;
  }

  void Normalize() const {
    const float scale = 1.0f / *sum;
    for (int d = 0; d < head_dim; ++d) out[d] *= scale;
  }
};

}  // namespace anchorage::kernels
