#include "kv/layouts/projection_levels.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace anchorage::kv {
namespace {

double SquaredError(const std::vector<float>& proj, const ProjectionLevels& levels) {
  double error = 0;
  for (const float value : proj) {
    error += std::pow(double{value} - levels[NearestLevel(levels, value)], 2);
  }
  return error / static_cast<double>(proj.size());
}

TEST(ProjectionLevelsTest, FewValuesAreKeptExactly) {
  const std::vector<float> proj = {-2, 3, 3, -2, 7, 3, -2};
  const ProjectionLevels levels = FitProjectionLevels(proj, {});
  for (const float value : proj) EXPECT_EQ(levels[NearestLevel(levels, value)], value);
}

TEST(ProjectionLevelsTest, OneValueAndNoValue) {
  EXPECT_EQ(FitProjectionLevels(std::vector<float>(9, 2.5f), {})[7], 2.5f);
  const uint32_t all[] = {0, 1};
  EXPECT_EQ(FitProjectionLevels(std::vector<float>{4, 5}, all)[3], 0.0f);
}

TEST(ProjectionLevelsTest, TheLargestNumbersDoNotOverflow) {
  const std::vector<float> proj = {-3e38f, 1, 3e38f};
  const ProjectionLevels levels = FitProjectionLevels(proj, {});
  EXPECT_EQ(levels[NearestLevel(levels, 3e38f)], 3e38f);
  EXPECT_EQ(levels[NearestLevel(levels, -3e38f)], -3e38f);
}

TEST(ProjectionLevelsTest, SkippedPositionsDoNotCount) {
  std::vector<float> proj = {1, 2, 1000, 3};
  const uint32_t skip[] = {2};
  const ProjectionLevels levels = FitProjectionLevels(proj, skip);
  EXPECT_EQ(levels.back(), 3.0f);
  EXPECT_EQ(levels[NearestLevel(levels, 2)], 2.0f);
}

// The least error of 16 levels for a unit Gaussian is 0.009497.
TEST(ProjectionLevelsTest, AGaussianIsNearlyLloydMax) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> proj(20'000);
  for (float& value : proj) value = normal(random);
  const ProjectionLevels levels = FitProjectionLevels(proj, {});
  EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end()));
  EXPECT_LT(SquaredError(proj, levels), 0.0105);
}

TEST(NearestLevelTest, TakesTheNearestAndTheLowerOfTwo) {
  ProjectionLevels levels;
  for (size_t i = 0; i < levels.size(); ++i) levels[i] = static_cast<float>(2 * i);
  EXPECT_EQ(NearestLevel(levels, -5), 0);
  EXPECT_EQ(NearestLevel(levels, 2.9f), 1);
  EXPECT_EQ(NearestLevel(levels, 3.0f), 1);
  EXPECT_EQ(NearestLevel(levels, 3.1f), 2);
  EXPECT_EQ(NearestLevel(levels, 4.0f), 2);
  EXPECT_EQ(NearestLevel(levels, 99), 15);
}

}  // namespace
}  // namespace anchorage::kv
