#include "kv/compressors/select_anchors.h"

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace anchorage::kv {
namespace {

using testing::ElementsAre;

LayerPlan Plan(int64_t prefix_len, int64_t pins, int64_t scored, int64_t uniform) {
  LayerPlan plan;
  plan.layout = Layout::kCompact;
  plan.window_len = 32;
  plan.seq_len = prefix_len + plan.window_len;
  plan.num_pins = pins;
  plan.num_scored = scored;
  plan.num_uniform = uniform;
  plan.num_anchors = plan.window_len + pins + scored + uniform;
  return plan;
}

std::vector<float> RandomScores(int64_t count) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform;
  std::vector<float> scores(static_cast<size_t>(count));
  for (float& score : scores) score = uniform(random);
  return scores;
}

TEST(SelectAnchorsTest, TakesPinsThenTheBestScores) {
  const std::vector<float> scores = {9, 8, 0.1f, 0.5f, 0.3f, 0.9f, 0.2f};
  EXPECT_THAT(SelectAnchors(Plan(7, 2, 2, 0), 0, 0, 1, scores), ElementsAre(0, 1, 3, 5));
}

TEST(SelectAnchorsTest, EqualScoresGoToTheLowerPosition) {
  const std::vector<float> scores = {1, 2, 2, 2, 1, 2};
  EXPECT_THAT(SelectAnchors(Plan(6, 0, 2, 0), 0, 0, 1, scores), ElementsAre(1, 2));
  EXPECT_THAT(SelectAnchors(Plan(6, 0, 5, 0), 0, 0, 1, scores), ElementsAre(0, 1, 2, 3, 5));
}

TEST(SelectAnchorsTest, UniformOnesHaveTheSmallestHashesOfTheRest) {
  const std::vector<float> scores = RandomScores(50);
  const LayerPlan plan = Plan(50, 2, 3, 7);
  const std::vector<uint32_t> scored = SelectAnchors(Plan(50, 2, 3, 0), 4, 1, 99, scores);
  std::vector<std::pair<uint64_t, uint32_t>> rest;
  for (uint32_t position = 0; position < 50; ++position) {
    if (!std::binary_search(scored.begin(), scored.end(), position)) {
      rest.emplace_back(UniformHash(99, 4, 1, position), position);
    }
  }
  std::sort(rest.begin(), rest.end());
  std::set<uint32_t> expected(scored.begin(), scored.end());
  for (int i = 0; i < 7; ++i) expected.insert(rest[i].second);
  const std::vector<uint32_t> selected = SelectAnchors(plan, 4, 1, 99, scores);
  EXPECT_EQ(std::set<uint32_t>(selected.begin(), selected.end()), expected);
}

TEST(SelectAnchorsTest, NothingIsSelectedTwiceAndTheOrderAscends) {
  for (const int64_t prefix_len : {33, 64, 500, 4097}) {
    const std::vector<uint32_t> selected =
        SelectAnchors(Plan(prefix_len, 4, 20, 9), 0, 2, 7, RandomScores(prefix_len));
    ASSERT_EQ(selected.size(), 33u);
    for (size_t i = 1; i < selected.size(); ++i) EXPECT_LT(selected[i - 1], selected[i]);
    EXPECT_LT(selected.back(), prefix_len);
  }
}

TEST(SelectAnchorsTest, UniformChoiceDiffersByLayerHeadAndSeed) {
  const std::vector<float> scores(1000, 0.0f);
  const LayerPlan plan = Plan(1000, 0, 0, 10);
  const std::vector<uint32_t> base = SelectAnchors(plan, 1, 1, 1, scores);
  EXPECT_EQ(SelectAnchors(plan, 1, 1, 1, scores), base);
  EXPECT_NE(SelectAnchors(plan, 2, 1, 1, scores), base);
  EXPECT_NE(SelectAnchors(plan, 1, 2, 1, scores), base);
  EXPECT_NE(SelectAnchors(plan, 1, 1, 2, scores), base);
}

TEST(SelectAnchorsTest, UniformChoiceIsSpreadEvenly) {
  const std::vector<float> scores(10'000, 0.0f);
  const std::vector<uint32_t> selected = SelectAnchors(Plan(10'000, 0, 0, 1000), 0, 0, 3, scores);
  int64_t lower = 0;
  for (const uint32_t position : selected) lower += position < 5000 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(lower), 500, 80);  // five standard deviations
}

TEST(SelectAnchorsTest, NaNScoresCountAsZero) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores = {nan, 0.1f, nan, 0.2f, nan};
  EXPECT_THAT(SelectAnchors(Plan(5, 0, 3, 0), 0, 0, 1, scores), ElementsAre(0, 1, 3));
}

}  // namespace
}  // namespace anchorage::kv
