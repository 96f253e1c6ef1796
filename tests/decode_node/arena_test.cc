#include "decode_node/core/arena.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace anchorage::decode {
namespace {

kv::RequestPlan PlanOf(int64_t layers, int64_t region_bytes, int64_t blocks, int64_t block_bytes) {
  kv::RequestPlan plan;
  for (int64_t i = 0; i < layers; ++i) {
    kv::LayerPlan layer;
    layer.region_bytes = region_bytes;
    plan.layers.push_back(layer);
  }
  plan.region_bytes = layers * region_bytes;
  plan.generated_blocks = blocks;
  plan.generated_block_bytes = block_bytes;
  plan.bytes = plan.region_bytes + blocks * block_bytes;
  return plan;
}

TEST(ArenaTest, CountsReservedUsedAndFreedToTheByte) {
  Arena arena(10'000);
  const kv::RequestPlan plan = PlanOf(2, 640, 2, 1'280);  // 1,280 + 2,560
  auto grant = arena.Reserve(plan);
  ASSERT_TRUE(grant.ok());
  EXPECT_EQ(arena.usage().reserved_bytes, 3'840);
  (*grant)->MarkLanded(0);
  EXPECT_EQ(arena.usage().used_bytes, 640);
  EXPECT_EQ(arena.usage().reserved_bytes, 3'200);
  ASSERT_TRUE((*grant)->TakeBlock().ok());
  EXPECT_EQ(arena.usage().used_bytes, 1'920);
  EXPECT_EQ(arena.usage().headroom_bytes(), 6'160);
  grant->reset();
  EXPECT_EQ(arena.usage(), (ArenaUsage{.limit_bytes = 10'000}));
}

TEST(ArenaTest, RefusesOneByteMoreThanTheHeadroomAndGrantsExactlyIt) {
  Arena arena(2'560);
  auto first = arena.Reserve(PlanOf(1, 1'280, 0, 0));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(arena.Reserve(PlanOf(1, 1'344, 0, 0)).status().code(),
            absl::StatusCode::kResourceExhausted);
  auto second = arena.Reserve(PlanOf(1, 1'280, 0, 0));
  EXPECT_TRUE(second.ok());
  EXPECT_EQ(arena.usage().headroom_bytes(), 0);
}

TEST(ArenaTest, RegionsOfOneRequestDoNotOverlap) {
  Arena arena(1 << 20);
  auto grant = arena.Reserve(PlanOf(3, 4'160, 1, 3 * 128));
  ASSERT_TRUE(grant.ok());
  ASSERT_TRUE((*grant)->TakeBlock().ok());
  for (int layer = 0; layer < 3; ++layer) {
    std::span<std::byte> region = (*grant)->region(layer);
    ASSERT_EQ(region.size(), 4'160u);
    std::fill(region.begin(), region.end(), std::byte(layer + 1));
    std::fill_n((*grant)->block(0, layer), 128, std::byte(layer + 65));
  }
  for (int layer = 0; layer < 3; ++layer) {
    for (const std::byte byte : (*grant)->region(layer)) ASSERT_EQ(byte, std::byte(layer + 1));
    EXPECT_EQ((*grant)->block(0, layer)[127], std::byte(layer + 65));
  }
}

TEST(ArenaTest, TakesNoMoreBlocksThanWereReserved) {
  Arena arena(1 << 20);
  auto grant = arena.Reserve(PlanOf(1, 64, 1, 128));
  ASSERT_TRUE(grant.ok());
  EXPECT_TRUE((*grant)->TakeBlock().ok());
  EXPECT_EQ((*grant)->TakeBlock().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ArenaTest, QuarantineKeepsTheBytesCountedUntilTheLastReference) {
  Arena arena(10'000);
  auto grant = arena.Reserve(PlanOf(2, 640, 1, 640));
  ASSERT_TRUE(grant.ok());
  (*grant)->MarkLanded(0);
  (*grant)->Quarantine(1);
  (*grant)->MarkLanded(1);  // too late: stays in quarantine
  EXPECT_EQ(arena.usage().quarantined_bytes, 1'920);
  EXPECT_EQ(arena.usage().quarantined_regions, 1);
  EXPECT_EQ(arena.usage().used_bytes, 0);
  EXPECT_EQ(arena.usage().reserved_bytes, 0);
  grant->reset();
  EXPECT_EQ(arena.usage(), (ArenaUsage{.limit_bytes = 10'000}));
}

// The promise of the design: whatever was granted and freed before, a need that the headroom covers
// is never refused, and the books balance at every step.
TEST(ArenaTest, NeverRefusesWhatTheHeadroomCoversUnderChurn) {
  std::mt19937_64 random(7);
  Arena arena(4 << 20);
  std::vector<std::shared_ptr<Grant>> live;
  int granted = 0;
  int refused = 0;
  for (int step = 0; step < 20'000; ++step) {
    const kv::RequestPlan plan = PlanOf(
        1 + static_cast<int64_t>(random() % 4), 64 * (1 + static_cast<int64_t>(random() % 900)),
        static_cast<int64_t>(random() % 5), 64 * (1 + static_cast<int64_t>(random() % 50)));
    const ArenaUsage before = arena.usage();
    auto grant = arena.Reserve(plan);
    ASSERT_EQ(grant.ok(), plan.bytes <= before.headroom_bytes());
    grant.ok() ? ++granted : ++refused;
    if (grant.ok()) live.push_back(*std::move(grant));
    if (!live.empty() && random() % 3 != 0) {
      const size_t victim = random() % live.size();
      if (random() % 2 == 0) live[victim]->MarkLanded(0);
      if (random() % 4 == 0) live[victim]->Quarantine(1);
      std::swap(live[victim], live.back());
      live.pop_back();
    }
    int64_t bytes = 0;
    for (const auto& each : live) bytes += each->plan().bytes;
    const ArenaUsage usage = arena.usage();
    ASSERT_EQ(usage.used_bytes + usage.reserved_bytes + usage.quarantined_bytes, bytes);
  }
  EXPECT_GT(granted, 1'000);
  EXPECT_GT(refused, 1'000);
  live.clear();
  EXPECT_EQ(arena.usage(), (ArenaUsage{.limit_bytes = 4 << 20}));
}

}  // namespace
}  // namespace anchorage::decode
