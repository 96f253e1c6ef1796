// Which positions of one side get a residual: the most useful ones over all heads of the layer
// (AnchorKV, arXiv 2608.02901, eq. 6).
#pragma once

#include <cstdint>
#include <span>

#include "kv/layouts/slot_index.h"

namespace anchorage::kv {

// A position that may never get a slot, such as an anchor, has this utility.
inline constexpr float kNoSlot = -1.0f;

// Fills mask, prefix and offset so that exactly `num_slots` positions have a slot. Order: higher
// utility, then lower position, then lower head. O(H P), no memory beside a histogram.
//   utilities  [H, P]; NaN counts as 0, anything below 0 as kNoSlot
// Precondition: at least `num_slots` utilities are not kNoSlot.
void SelectSlots(std::span<const float> utilities, int64_t num_heads, int64_t prefix_len,
                 int64_t num_slots, const MutableSlotIndex& slots);

}  // namespace anchorage::kv
