#include "kernels/types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/isa.h"
#include "tests/kernels/kernel_testing.h"

namespace anchorage::kernels {
namespace {

TEST(Bf16Test, RoundsToNearestEven) {
  // The step of bf16 above 1 is 2^-7.
  EXPECT_EQ(ToFloat(ToBf16(1.0f)), 1.0f);
  EXPECT_EQ(ToFloat(ToBf16(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(ToFloat(ToBf16(1.0f + 0x1p-8f + 0x1p-20f)), 1.0f + 0x1p-7f);
  EXPECT_EQ(ToFloat(ToBf16(1.0f + 3 * 0x1p-8f)), 1.0f + 2 * 0x1p-7f);
  EXPECT_EQ(ToFloat(ToBf16(-1.0f - 3 * 0x1p-8f)), -1.0f - 2 * 0x1p-7f);
}

TEST(Bf16Test, KeepsWhatIsNotANumber) {
  EXPECT_TRUE(std::isnan(ToFloat(ToBf16(std::numeric_limits<float>::quiet_NaN()))));
  // A NaN whose payload lies in the lower half alone must not become infinity.
  EXPECT_TRUE(std::isnan(ToFloat(ToBf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(ToFloat(ToBf16(INFINITY)), INFINITY);
  EXPECT_EQ(ToFloat(ToBf16(std::numeric_limits<float>::max())), INFINITY);
}

TEST(WeightRowBytesTest, FollowsTheBlockOfEachType) {
  EXPECT_EQ(WeightRowBytes(WeightType::kF32, 7), 28);
  EXPECT_EQ(WeightRowBytes(WeightType::kF16, 7), 14);
  EXPECT_EQ(WeightRowBytes(WeightType::kQ4_1, 576), 18 * 20);
  EXPECT_EQ(WeightRowBytes(WeightType::kQ8_0, 576), 18 * 34);
}

TEST(WeightRowBytesTest, IsZeroWhenTheBlockDoesNotFit) {
  EXPECT_EQ(WeightRowBytes(WeightType::kQ4_1, 33), 0);
  EXPECT_EQ(WeightRowBytes(WeightType::kQ8_0, 16), 0);
  EXPECT_EQ(WeightRowBytes(WeightType::kF32, -1), 0);
}

TEST(IsaTableTest, ForcesWhatTheMachineHasAndNothingElse) {
  const Isa before = ActiveIsa();
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2}) {
    const Isa active = ActiveIsa();
    EXPECT_EQ(ForceIsa(isa), IsaSupported(isa));
    EXPECT_EQ(ActiveIsa(), IsaSupported(isa) ? isa : active);
  }
  ASSERT_TRUE(ForceIsa(before));
  EXPECT_TRUE(IsaSupported(Isa::kPortable));
  EXPECT_STREQ(IsaName(Isa::kPortable), "portable");
  EXPECT_STREQ(IsaName(Isa::kAvx2), "avx2");
}

}  // namespace
}  // namespace anchorage::kernels
