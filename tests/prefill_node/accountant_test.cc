#include "prefill_node/core/accountant.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace anchorage::prefill {
namespace {

TEST(AccountantTest, ChargesCountWhileTheyLive) {
  MemoryAccountant accountant;
  {
    const auto kv = accountant.Add(Component::kActiveKv, 100);
    const auto bridge = accountant.Add(Component::kHiddenBridge, 30);
    const auto weights = accountant.Add(Component::kWeights, 1000);
    EXPECT_EQ(accountant.live()[Component::kActiveKv], 100);
    EXPECT_EQ(accountant.live()[Component::kWeights], 1000);
    EXPECT_EQ(accountant.live().transient, 130);
  }
  EXPECT_EQ(accountant.live().transient, 0);
  EXPECT_EQ(accountant.live()[Component::kWeights], 0);
  EXPECT_EQ(accountant.peak().transient, 130);
}

TEST(AccountantTest, PeakIsOfWhatWasThereAtOnce) {
  MemoryAccountant accountant;
  { const auto first = accountant.Add(Component::kActiveKv, 100); }
  { const auto second = accountant.Add(Component::kCompression, 70); }
  EXPECT_EQ(accountant.peak()[Component::kActiveKv], 100);
  EXPECT_EQ(accountant.peak()[Component::kCompression], 70);
  EXPECT_EQ(accountant.peak().transient, 100);
  accountant.ResetPeak();
  EXPECT_EQ(accountant.peak().transient, 0);
}

TEST(AccountantTest, MovedChargesCountOnce) {
  MemoryAccountant accountant;
  auto a = accountant.Add(Component::kStaging, 10);
  auto b = std::move(a);
  EXPECT_EQ(accountant.live()[Component::kStaging], 10);
  b = accountant.Add(Component::kStaging, 5);
  EXPECT_EQ(accountant.live()[Component::kStaging], 5);
  b.Resize(8);
  EXPECT_EQ(accountant.live()[Component::kStaging], 8);
  b = MemoryAccountant::Charge();
  EXPECT_EQ(accountant.live()[Component::kStaging], 0);
}

TEST(AccountantTest, SharedChargesMayOutliveTheAccountant) {
  auto accountant = std::make_optional<MemoryAccountant>();
  std::shared_ptr<void> charge = accountant->Share(Component::kFinishedLayers, 64);
  const std::shared_ptr<void> second = charge;
  charge.reset();
  EXPECT_EQ(accountant->live()[Component::kFinishedLayers], 64);
  accountant.reset();
}

TEST(AccountantTest, ThreadsLeaveNothingBehind) {
  MemoryAccountant accountant;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&accountant] {
      for (int i = 0; i < 1000; ++i) {
        const auto charge = accountant.Add(static_cast<Component>(i % 5), i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(accountant.live().transient, 0);
}

TEST(AccountantTest, NamesEachComponent) {
  EXPECT_STREQ(ComponentName(Component::kActiveKv), "active_kv");
  EXPECT_STREQ(ComponentName(Component::kStaging), "staging");
}

}  // namespace
}  // namespace anchorage::prefill
