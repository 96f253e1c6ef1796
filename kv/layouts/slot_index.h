// Which prefix positions of one side have a residual, and in which slot it lies: a bit mask with
// running counts, the same in both layouts (AnchorKV, arXiv 2608.02901, section on the layout).
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "kv/plan/plan.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {

// Pointers into a region; bit b of word w of a head stands for position 64 w + b.
template <typename Word, typename Count>
struct SlotIndexOf {
  int64_t num_words = 0;
  std::span<Word> mask;     // [H, num_words]
  std::span<Count> prefix;  // [H, num_words] set bits of the head before the word
  std::span<Count> offset;  // [H + 1] first slot of each head; last = all slots

  // Slot of a position, or -1 when it has none.
  int64_t SlotOf(int64_t head, int64_t position) const {
    if (mask.empty()) return -1;
    const int64_t word = head * num_words + position / 64;
    const uint64_t bit = uint64_t{1} << (position % 64);
    if ((mask[word] & bit) == 0) return -1;
    return int64_t{offset[head]} + prefix[word] + std::popcount(mask[word] & (bit - 1));
  }
};
using SlotIndex = SlotIndexOf<const uint64_t, const uint32_t>;
using MutableSlotIndex = SlotIndexOf<uint64_t, uint32_t>;

// First codes, or the second ones that some positions have too.
enum class Stage : uint8_t { kCoarse, kFine };

// What the tensors of a side's stage are called in the plan.
struct StageNames {
  const char* mask;
  const char* prefix;
  const char* offset;
  const char* codes;
  const char* scale;
};

inline const StageNames& NamesOf(Side side, Stage stage) {
  static constexpr StageNames kNames[2][2] = {
      {{"mask_k", "prefix_k", "offset_k", "codes_k", "scale_k"},
       {"mask_v", "prefix_v", "offset_v", "codes_v", "scale_v"}},
      {{"fine_mask_k", "fine_prefix_k", "fine_offset_k", "fine_codes_k", "fine_scale_k"},
       {"fine_mask_v", "fine_prefix_v", "fine_offset_v", "fine_codes_v", "fine_scale_v"}}};
  return kNames[static_cast<int>(stage)][static_cast<int>(side)];
}

inline int64_t NumSlots(const LayerPlan& plan, Side side, Stage stage) {
  const bool key = side == Side::kKey;
  if (stage == Stage::kCoarse) return key ? plan.key_slots : plan.value_slots;
  return key ? plan.key_fine_slots : plan.value_fine_slots;
}

namespace internal {

template <typename Slots, typename Word, typename Count, typename Byte>
Slots MapSlotsAs(const LayerPlan& plan, std::span<Byte> region, Side side, Stage stage) {
  const StageNames& names = NamesOf(side, stage);
  return {plan.num_words(), TensorSpan<Word>(plan, region, names.mask),
          TensorSpan<Count>(plan, region, names.prefix),
          TensorSpan<Count>(plan, region, names.offset)};
}

}  // namespace internal

inline SlotIndex MapSlots(const LayerPlan& plan, std::span<const std::byte> region, Side side,
                          Stage stage = Stage::kCoarse) {
  return internal::MapSlotsAs<SlotIndex, const uint64_t, const uint32_t>(plan, region, side, stage);
}

inline MutableSlotIndex MapSlots(const LayerPlan& plan, std::span<std::byte> region, Side side,
                                 Stage stage = Stage::kCoarse) {
  return internal::MapSlotsAs<MutableSlotIndex, uint64_t, uint32_t>(plan, region, side, stage);
}

}  // namespace anchorage::kv
