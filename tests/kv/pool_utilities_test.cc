#include "kv/compressors/pool_utilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace anchorage::kv {
namespace {

using testing::ElementsAre;

std::vector<float> Pooled(std::vector<float> utilities, int64_t width) {
  PoolUtilities(utilities, width);
  return utilities;
}

TEST(PoolUtilitiesTest, AddsTheMeanOfTheNeighbourhood) {
  // 3 + (0 + 3 + 6) / 3, 6 + (3 + 6 + 0) / 3, 0 + (6 + 0 + 9) / 3, 9 + (0 + 9 + 0) / 3
  EXPECT_THAT(Pooled({3, 6, 0, 9}, 3), ElementsAre(6, 9, 5, 12));
}

TEST(PoolUtilitiesTest, WidthOneChangesNothing) {
  EXPECT_THAT(Pooled({3, 6, 0}, 1), ElementsAre(3, 6, 0));
}

TEST(PoolUtilitiesTest, ARowMayBeShorterThanTheWindow) {
  EXPECT_THAT(Pooled({5}, 5), ElementsAre(6));
  EXPECT_THAT(Pooled({5, 10}, 5), ElementsAre(8, 13));
  EXPECT_TRUE(Pooled({}, 5).empty());
}

TEST(PoolUtilitiesTest, AgreesWithTheObviousLoop) {
  std::mt19937 random(7);
  for (const int64_t width : {3, 7, 127, 255}) {
    for (const int64_t size : {1, 2, 3, 63, 126, 127, 128, 254, 255, 256, 1000}) {
      std::vector<float> utilities(static_cast<size_t>(size));
      for (float& utility : utilities) {
        utility = std::exp(std::normal_distribution<float>(0, 5)(random));
      }
      const std::vector<float> pooled = Pooled(utilities, width);
      for (int64_t t = 0; t < size; ++t) {
        double sum = 0;
        for (int64_t i = t - width / 2; i <= t + width / 2; ++i) {
          if (i >= 0 && i < size) sum += utilities[i];
        }
        const double expected = utilities[t] + sum / static_cast<double>(width);
        // Rounded to float once; the sum of up to 255 positive terms in double is far closer.
        EXPECT_NEAR(pooled[t], expected, expected * std::numeric_limits<float>::epsilon())
            << width << " " << size << " " << t;
      }
    }
  }
}

TEST(PoolUtilitiesTest, NothingIsLostBehindAHugeNeighbour) {
  std::vector<float> utilities(300, 1.0f);
  utilities[10] = 1e30f;
  const std::vector<float> pooled = Pooled(utilities, 7);
  EXPECT_EQ(pooled[13], 1.0f + static_cast<float>((1e30f + 6.0) / 7));
  for (size_t t = 14; t < 297; ++t) EXPECT_EQ(pooled[t], 2.0f) << t;
}

TEST(PoolUtilitiesTest, NanIsNothingAndInfinityTheMost) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float most = std::numeric_limits<float>::max();
  EXPECT_THAT(Pooled({std::nanf(""), 3, 0}, 3), ElementsAre(1, 4, 1));
  EXPECT_THAT(Pooled({infinity, 0, 0, 3}, 3),
              ElementsAre(most, static_cast<float>(double{most} / 3), 1, 4));
}

}  // namespace
}  // namespace anchorage::kv
