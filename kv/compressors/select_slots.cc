#include "kv/compressors/select_slots.h"

#include <array>
#include <bit>

namespace anchorage::kv {
namespace {

// Ordered like the utility: 0 = never, 1 = useless, then the bits of the float.
uint32_t RankOf(float utility) {
  if (utility < 0) return 0;
  if (!(utility > 0)) return 1;
  return std::bit_cast<uint32_t>(utility) + 1;
}

// The num_slots-th highest rank, and how many of that rank are still wanted once all higher ones
// are taken.
struct Threshold {
  uint32_t rank = 0;
  int64_t wanted = 0;
};

// Radix selection from the top digit down: each pass counts the digit of those that share the
// digits found so far.
Threshold FindThreshold(std::span<const float> utilities, int64_t num_slots) {
  constexpr int kDigitBits = 8;
  Threshold threshold{0, num_slots};
  uint32_t known_bits = 0;
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    std::array<int64_t, 1 << kDigitBits> counts = {};
    for (const float utility : utilities) {
      const uint32_t rank = RankOf(utility);
      if ((rank & known_bits) == threshold.rank) ++counts[rank >> shift & 0xff];
    }
    uint32_t digit = 0xff;
    while (digit > 0 && counts[digit] < threshold.wanted) threshold.wanted -= counts[digit--];
    threshold.rank |= digit << shift;
    known_bits |= uint32_t{0xff} << shift;
  }
  return threshold;
}

void MarkSlots(std::span<const float> utilities, int64_t num_heads, int64_t prefix_len,
               Threshold threshold, const MutableSlotIndex& slots) {
  for (int64_t position = 0; position < prefix_len; ++position) {
    for (int64_t head = 0; head < num_heads; ++head) {
      const uint32_t rank = RankOf(utilities[head * prefix_len + position]);
      if (rank < threshold.rank) continue;
      if (rank == threshold.rank && threshold.wanted-- <= 0) continue;
      slots.mask[head * slots.num_words + position / 64] |= uint64_t{1} << (position % 64);
    }
  }
}

void CountSlots(int64_t num_heads, const MutableSlotIndex& slots) {
  uint32_t total = 0;
  for (int64_t head = 0; head < num_heads; ++head) {
    slots.offset[head] = total;
    uint32_t in_head = 0;
    for (int64_t word = head * slots.num_words; word < (head + 1) * slots.num_words; ++word) {
      slots.prefix[word] = in_head;
      in_head += static_cast<uint32_t>(std::popcount(slots.mask[word]));
    }
    total += in_head;
  }
  slots.offset[num_heads] = total;
}

}  // namespace

void SelectSlots(std::span<const float> utilities, int64_t num_heads, int64_t prefix_len,
                 int64_t num_slots, const MutableSlotIndex& slots) {
  for (uint64_t& word : slots.mask) word = 0;
  if (num_slots > 0) {
    MarkSlots(utilities, num_heads, prefix_len, FindThreshold(utilities, num_slots), slots);
  }
  CountSlots(num_heads, slots);
}

}  // namespace anchorage::kv
