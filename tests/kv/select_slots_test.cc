#include "kv/compressors/select_slots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace anchorage::kv {
namespace {

// Owns the tensors of a slot index.
class Slots {
 public:
  Slots(int64_t num_heads, int64_t prefix_len)
      : num_words_((prefix_len + 63) / 64),
        mask_(static_cast<size_t>(num_heads * num_words_), ~uint64_t{0}),
        prefix_(mask_.size(), 77),
        offset_(static_cast<size_t>(num_heads + 1), 77) {}

  MutableSlotIndex index() { return {num_words_, mask_, prefix_, offset_}; }
  bool Has(int64_t head, int64_t position) { return index().SlotOf(head, position) >= 0; }
  const std::vector<uint64_t>& mask() const { return mask_; }
  const std::vector<uint32_t>& offset() const { return offset_; }

 private:
  int64_t num_words_;
  std::vector<uint64_t> mask_;
  std::vector<uint32_t> prefix_;
  std::vector<uint32_t> offset_;
};

TEST(SelectSlotsTest, PicksTheMostUsefulOverAllHeads) {
  // Head 0: 5 1 3, head 1: 4 2 6.
  const std::vector<float> utilities = {5, 1, 3, 4, 2, 6};
  Slots slots(2, 3);
  SelectSlots(utilities, 2, 3, 3, slots.index());
  EXPECT_EQ(slots.mask()[0], 0b001u);
  EXPECT_EQ(slots.mask()[1], 0b101u);
  EXPECT_THAT(slots.offset(), testing::ElementsAre(0, 1, 3));
  EXPECT_EQ(slots.index().SlotOf(0, 0), 0);
  EXPECT_EQ(slots.index().SlotOf(1, 0), 1);
  EXPECT_EQ(slots.index().SlotOf(1, 2), 2);
  EXPECT_EQ(slots.index().SlotOf(1, 1), -1);
}

TEST(SelectSlotsTest, TiesGoToTheLowerPositionThenTheLowerHead) {
  const std::vector<float> utilities(8, 1.0f);  // 2 heads of 4
  Slots slots(2, 4);
  SelectSlots(utilities, 2, 4, 3, slots.index());
  EXPECT_EQ(slots.mask()[0], 0b0011u);
  EXPECT_EQ(slots.mask()[1], 0b0001u);
}

TEST(SelectSlotsTest, NeverPicksWhatMayNotHaveASlot) {
  const std::vector<float> utilities = {kNoSlot, 0, 0, kNoSlot, 0, 0};
  Slots slots(1, 6);
  SelectSlots(utilities, 1, 6, 4, slots.index());
  EXPECT_EQ(slots.mask()[0], 0b110110u);
}

TEST(SelectSlotsTest, NaNIsWorthNothingAndInfEverything) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> utilities = {nan, 1e-30f, inf, 1e30f};
  Slots slots(1, 4);
  SelectSlots(utilities, 1, 4, 3, slots.index());
  EXPECT_EQ(slots.mask()[0], 0b1110u);
}

TEST(SelectSlotsTest, NoSlotsLeaveAnEmptyIndex) {
  const std::vector<float> utilities(130, 1.0f);
  Slots slots(1, 130);
  SelectSlots(utilities, 1, 130, 0, slots.index());
  for (int64_t position = 0; position < 130; ++position) EXPECT_FALSE(slots.Has(0, position));
  EXPECT_THAT(slots.offset(), testing::ElementsAre(0, 0));
}

TEST(SelectSlotsTest, AgreesWithASortForEveryNumberOfSlots) {
  constexpr int64_t kHeads = 3;
  constexpr int64_t kPrefix = 131;
  std::mt19937 random(17);
  std::vector<float> utilities(kHeads * kPrefix);
  for (float& utility : utilities) {
    // Few distinct values and wide ranges: many ties, all digits in use.
    utility = std::ldexp(static_cast<float>(random() % 5), static_cast<int>(random() % 60) - 30);
  }
  for (size_t i = 0; i < utilities.size(); i += 11) utilities[i] = kNoSlot;
  std::vector<std::tuple<float, int64_t, int64_t>> order;  // -utility, position, head
  for (int64_t head = 0; head < kHeads; ++head) {
    for (int64_t position = 0; position < kPrefix; ++position) {
      const float utility = utilities[head * kPrefix + position];
      if (utility >= 0) order.emplace_back(-utility, position, head);
    }
  }
  std::sort(order.begin(), order.end());
  for (size_t num_slots = 0; num_slots <= order.size(); ++num_slots) {
    Slots slots(kHeads, kPrefix);
    SelectSlots(utilities, kHeads, kPrefix, static_cast<int64_t>(num_slots), slots.index());
    ASSERT_EQ(slots.offset().back(), num_slots);
    for (size_t i = 0; i < order.size(); ++i) {
      const auto& [utility, position, head] = order[i];
      ASSERT_EQ(slots.Has(head, position), i < num_slots) << num_slots << " " << i;
    }
  }
}

TEST(SlotIndexTest, SlotsAreNumberedByHeadThenPosition) {
  std::mt19937 random(3);
  std::vector<float> utilities(2 * 200);
  for (float& utility : utilities) utility = static_cast<float>(random() % 1000);
  Slots slots(2, 200);
  SelectSlots(utilities, 2, 200, 150, slots.index());
  int64_t next = 0;
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t position = 0; position < 200; ++position) {
      if (!slots.Has(head, position)) continue;
      EXPECT_EQ(slots.index().SlotOf(head, position), next++);
    }
  }
  EXPECT_EQ(next, 150);
}

}  // namespace
}  // namespace anchorage::kv
