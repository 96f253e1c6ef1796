// The anchors of a head: k - W selected positions, ascending, then the W window rows.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/types.h"
#include "kv/plan/plan.h"

namespace anchorage::kv {

// Row `anchor` of head `head` in anchor_k or anchor_v [H, k, D].
inline const kernels::Bf16* AnchorRow(const LayerPlan& plan, std::span<const kernels::Bf16> anchors,
                                      int64_t head, int64_t anchor) {
  return anchors.data() + (head * plan.num_anchors + anchor) * plan.head_dim;
}

}  // namespace anchorage::kv
