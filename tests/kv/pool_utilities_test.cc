#include "kv/compressors/pool_utilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace anchorage::kv {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<float> Pooled(std::vector<float> utilities, const std::vector<float>& energies,
                          int64_t width) {
  PoolUtilities(utilities, energies, width);
  return utilities;
}

// The near window is no wider than the wide one, so both prices are the same here: five times
//   2 (0 + 3 + 6) / (0 + 2 + 1), 1 (3 + 6 + 0) / (2 + 1 + 6),
//   6 (6 + 0 + 9) / (1 + 6 + 3), 3 (0 + 9 + 0) / (6 + 3 + 0)
TEST(PoolUtilitiesTest, AddsTheEnergyAtTheNeighbourhoodsPrice) {
  EXPECT_THAT(Pooled({3, 6, 0, 9}, {2, 1, 6, 3}, 3),
              ElementsAre(4 * 3 + 5 * 6, 4 * 6 + 5 * 1, 4 * 0 + 5 * 9, 4 * 9 + 5 * 3));
}

// Equal energies, and one position of 101 that is worth 1010: its price is 1010 / 101 to all of
// them, and 1010 / 63 to the 31 on both sides.
TEST(PoolUtilitiesTest, TheNearNeighbourhoodCountsFourTimes) {
  std::vector<float> utilities(101);
  utilities[50] = 1010;
  const std::vector<float> pooled = Pooled(utilities, std::vector<float>(101, 1.0f), 1023);
  EXPECT_FLOAT_EQ(pooled[50], 4 * 1010 + 10 + 4 * 1010.0 / 63);
  for (const int t : {49, 51, 32, 68}) EXPECT_FLOAT_EQ(pooled[t], 10 + 4 * 1010.0 / 63) << t;
  EXPECT_FLOAT_EQ(pooled[19], 10 + 4 * 1010.0 / 51) << "near the row's beginning";
  for (const int t : {18, 82, 0, 100}) EXPECT_FLOAT_EQ(pooled[t], 10) << t;
}

TEST(PoolUtilitiesTest, WidthOneChangesNothing) {
  EXPECT_THAT(Pooled({3, 6, 0}, {1, 2, 3}, 1), ElementsAre(3, 6, 0));
}

TEST(PoolUtilitiesTest, ARowMayBeShorterThanTheWindow) {
  EXPECT_THAT(Pooled({5}, {2}, 5), ElementsAre(45));
  EXPECT_THAT(Pooled({5, 10}, {1, 2}, 5), ElementsAre(45, 90));
  EXPECT_THAT(Pooled({}, {}, 5), IsEmpty());
}

TEST(PoolUtilitiesTest, WithoutEnergyNothingIsAdded) {
  EXPECT_THAT(Pooled({0, 5, 0}, {0, 0, 0}, 3), ElementsAre(0, 20, 0));
}

TEST(PoolUtilitiesTest, AgreesWithTheObviousLoop) {
  std::mt19937 random(7);
  const auto some = [&](int64_t size) {
    std::vector<float> values(static_cast<size_t>(size));
    for (float& value : values) value = std::exp(std::normal_distribution<float>(0, 5)(random));
    return values;
  };
  for (const int64_t width : {3, 7, 127, 255, 1023}) {
    for (const int64_t size : {1, 2, 3, 63, 126, 127, 128, 254, 255, 256, 1000, 2500}) {
      const std::vector<float> utilities = some(size);
      const std::vector<float> energies = some(size);
      const std::vector<float> pooled = Pooled(utilities, energies, width);
      for (int64_t t = 0; t < size; ++t) {
        const auto price = [&](int64_t w) {
          double utility = 0;
          double energy = 0;
          for (int64_t i = std::max<int64_t>(t - w / 2, 0); i <= std::min(t + w / 2, size - 1);
               ++i) {
            utility += utilities[i];
            energy += energies[i];
          }
          return utility / energy;
        };
        const double expected =
            4.0 * utilities[t] +
            energies[t] * (price(width) + 4 * price(std::min<int64_t>(width, 63)));
        // Rounded to float once; sums of positive terms in double are far closer.
        ASSERT_NEAR(pooled[t], expected, expected * std::numeric_limits<float>::epsilon())
            << width << " " << size << " " << t;
      }
    }
  }
}

TEST(PoolUtilitiesTest, NothingIsLostBehindAHugeNeighbour) {
  std::vector<float> utilities(300, 1.0f);
  utilities[10] = 1e30f;
  const std::vector<float> pooled = Pooled(utilities, std::vector<float>(300, 1.0f), 7);
  EXPECT_EQ(pooled[13], 4.0f + static_cast<float>(5 * (1e30f + 6.0) / 7));
  for (size_t t = 14; t < 297; ++t) EXPECT_EQ(pooled[t], 9.0f) << t;
}

TEST(PoolUtilitiesTest, NanIsNothingAndInfinityTheMost) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float most = std::numeric_limits<float>::max();
  EXPECT_THAT(Pooled({std::nanf(""), 3, 0}, {1, 1, 1}, 3), ElementsAre(7.5, 17, 7.5));
  EXPECT_THAT(Pooled({infinity, 0, 0, 3}, {1, 1, 1, 1}, 3), ElementsAre(most, most, 5, 19.5));
  EXPECT_THAT(Pooled({1, 1}, {infinity, std::nanf("")}, 3), ElementsAre(14, 4));
}

}  // namespace
}  // namespace anchorage::kv
