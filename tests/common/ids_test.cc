#include "common/ids.h"

#include <set>

#include "common/aligned_buffer.h"
#include "gtest/gtest.h"

namespace anchorage {
namespace {

TEST(AttemptIdTest, PrintsAndComparesByRequestThenGeneration) {
  EXPECT_EQ((AttemptId{0xabc, 2}).ToString(), "0000000000000abc/2");
  EXPECT_LT((AttemptId{1, 9}), (AttemptId{2, 1}));
  EXPECT_NE(std::hash<AttemptId>()({1, 1}), std::hash<AttemptId>()({1, 2}));
}

TEST(BootIdTest, IsNeverZeroAndNeverTheSame) {
  std::set<BootId> seen;
  for (int i = 0; i < 100; ++i) seen.insert(NewBootId());
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_FALSE(seen.contains(0));
}

TEST(AlignedBufferTest, IsAlignedAndZero) {
  AlignedBuffer buffer(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment, 0u);
  EXPECT_EQ(buffer.size(), 100u);
  for (const std::byte byte : buffer.span()) EXPECT_EQ(byte, std::byte{0});
  EXPECT_EQ(AlignedBuffer(0).data(), nullptr);
}

}  // namespace
}  // namespace anchorage
