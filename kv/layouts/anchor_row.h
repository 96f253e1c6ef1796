// The anchors of a head: k - W selected positions, ascending, then the W window rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/anchor_code.h"
#include "kernels/types.h"
#include "kv/plan/plan.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {

// Row `anchor` of head `head` among anchors [H, k, D].
template <typename T>
T* AnchorRow(const LayerPlan& plan, std::span<T> anchors, int64_t head, int64_t anchor) {
  return anchors.data() + (head * plan.num_anchors + anchor) * plan.head_dim;
}

// The same out of a region, as a decoder has it.  out [D]
inline void LoadAnchor(const LayerPlan& plan, std::span<const std::byte> region, Side side,
                       int64_t head, int64_t anchor, kernels::Bf16* out) {
  if (plan.layout == Layout::kPaper) {
    const auto rows = TensorSpan<const kernels::Bf16>(plan, region, side, "anchor_k", "anchor_v");
    std::copy_n(AnchorRow(plan, rows, head, anchor), plan.head_dim, out);
    return;
  }
  const auto numbers = TensorSpan<const int8_t>(plan, region, side, "anchor_k", "anchor_v");
  const auto exponents =
      TensorSpan<const int8_t>(plan, region, side, "anchor_exponent_k", "anchor_exponent_v");
  kernels::DecodeAnchors(1, static_cast<int>(plan.head_dim), AnchorRow(plan, numbers, head, anchor),
                         &exponents[head * plan.num_anchors + anchor], out);
}

}  // namespace anchorage::kv
