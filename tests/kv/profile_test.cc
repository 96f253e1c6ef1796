#include "kv/plan/profile.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kv/plan/plan.h"

namespace anchorage::kv {
namespace {

int64_t Sum(const std::vector<int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

// ---- CheckProfile ----

TEST(CheckProfileTest, NamesWhatIsWrong) {
  const auto complains = [](const Profile& profile, const std::string& about) {
    const std::string problem = CheckProfile(profile, 2);
    EXPECT_NE(problem.find(about), std::string::npos) << "'" << problem << "' about " << about;
  };
  EXPECT_EQ(CheckProfile({}, 2), "");
  EXPECT_EQ(CheckProfile({{0, 100}, {5, 1, 9, 9}}, 2), "");
  EXPECT_EQ(CheckProfile({{0, 100}, {5, 6, 9, 9}}, 2), "") << "a measured error may rise";
  complains({{0}, {5, 5}}, "2 to 64 rates");
  complains({std::vector<int64_t>(65), {}}, "2 to 64 rates, not 65");
  complains({{1, 100}, {5, 1, 9, 9}}, "first rate");
  complains({{0, 0}, {5, 1, 9, 9}}, "ascend");
  complains({{0, 16'001}, {5, 1, 9, 9}}, "ascend");
  complains({{0, 100}, {5, 1, 9, 9, 7, 7}}, "3 layers, the model 2");
  complains({{0, 100}, {5, 1, 9}}, "layers, the model 2");
  complains({{}, {5}}, "rates");
  complains({{0, 100}, {5, -1, 9, 9}}, "layer 0, rate 1");
  complains({{0, 100}, {5, 1, 1'000'000'000'001, 9}}, "layer 1, rate 0");
}

// ---- NanonatsLeft ----

// 8,000 coordinates: a rate in millibits is a number of bytes.
TEST(NanonatsLeftTest, IsLinearBetweenTheRatesAndFlatBeyond) {
  const Profile profile = {{0, 100, 300}, {600, 200, 100, 9, 9, 9}};
  const auto left = [&profile](int64_t bytes) { return NanonatsLeft(profile, 0, 8000, bytes); };
  EXPECT_EQ(left(0), 600);
  EXPECT_EQ(left(25), 500);
  EXPECT_EQ(left(100), 200);
  EXPECT_EQ(left(200), 150);
  EXPECT_EQ(left(300), 100);
  EXPECT_EQ(left(5000), 100);
  EXPECT_EQ(NanonatsLeft(profile, 1, 8000, 50), 9);
  EXPECT_EQ(NanonatsLeft(profile, 0, 1, 0), 200) << "no rate is worth a byte of one coordinate";
}

// ---- ShareBytes ----

// 8,000 coordinates: a rate in millibits is a number of bytes. Two layers of which a sixteenth of
// an equal share is 10 bytes when 320 are shared.
constexpr int64_t kCoordinates = 8000;

TEST(ShareBytesTest, SteepestStepsComeFirst) {
  // Layer 0 saves 4 and 2 a byte up to 100 and 200, layer 1 3 and 1.
  const Profile profile = {{0, 100, 200}, {600, 200, 0, 400, 100, 0}};
  EXPECT_EQ(ShareBytes(profile, 2, kCoordinates, 1000, 320), (std::vector<int64_t>{200, 120}));
  EXPECT_EQ(ShareBytes(profile, 2, kCoordinates, 1000, 96), (std::vector<int64_t>{93, 3}))
      << "each has a sixteenth of 48 first";
  EXPECT_EQ(ShareBytes(profile, 2, kCoordinates, 1000, 160), (std::vector<int64_t>{100, 60}));
}

TEST(ShareBytesTest, WhatNoCurveWantsGoesToAllAlike) {
  const Profile profile = {{0, 100}, {600, 0, 400, 0}};
  EXPECT_EQ(ShareBytes(profile, 2, kCoordinates, 1000, 221), (std::vector<int64_t>{111, 110}));
}

TEST(ShareBytesTest, NoLayerGetsMoreThanItCanSpend) {
  const Profile profile = {{0, 100, 200}, {600, 200, 0, 400, 100, 0}};
  EXPECT_EQ(ShareBytes(profile, 2, kCoordinates, 150, 280), (std::vector<int64_t>{150, 130}));
  EXPECT_EQ(ShareBytes(profile, 2, kCoordinates, 150, 999), (std::vector<int64_t>{150, 150}));
}

TEST(ShareBytesTest, ADentInACurveIsBridged) {
  // Layer 0 saves nothing up to 100 and 6 a byte behind it, 3 a byte in all; layer 1 saves 2.
  const Profile profile = {{0, 100, 200}, {600, 600, 0, 400, 200, 0}};
  EXPECT_EQ(ShareBytes(profile, 2, kCoordinates, 1000, 320), (std::vector<int64_t>{200, 120}));
}

TEST(ShareBytesTest, ALayerThatSavesNothingKeepsItsSixteenth) {
  const Profile profile = {{0, 1000}, {600, 0, 0, 7}};
  EXPECT_EQ(ShareBytes(profile, 2, kCoordinates, 2000, 640), (std::vector<int64_t>{620, 20}));
}

TEST(ShareBytesTest, LargestNumbersDoNotOverflow) {
  const int64_t coordinates = int64_t{1} << 47;
  const std::vector<int64_t> bytes = ShareBytes({{0, 16'000}, {1'000'000'000'000, 0, 1, 0}}, 2,
                                                coordinates, int64_t{1} << 50, int64_t{1} << 48);
  EXPECT_EQ(Sum(bytes), int64_t{1} << 48);
  EXPECT_GT(bytes[0], bytes[1]);
}

TEST(BytesAtRateTest, RoundsDown) {
  EXPECT_EQ(BytesAtRate(8000, 1), 1);
  EXPECT_EQ(BytesAtRate(7999, 1), 0);
  EXPECT_EQ(BytesAtRate(12'000, 3), 4);
  EXPECT_EQ(BytesAtRate(0, 16'000), 0);
}

// ---- Plans with a profile ----

class ProfiledPlanTest : public testing::TestWithParam<int64_t> {
 protected:
  ProfiledPlanTest() {
    options_.theta_ppm = GetParam();
    options_.profile.millibits = {0, 250, 1000, 2000, 4000};
    for (int64_t layer = 0; layer < geometry_.num_layers; ++layer) {
      for (const int64_t error : {80, 20, 6, 3, 0}) {
        options_.profile.nanonats.push_back(error * (1 + layer * layer * layer));
      }
    }
  }

  const Geometry geometry_ = {12, 3, 64};
  PlanOptions options_;
};

TEST_P(ProfiledPlanTest, TheTotalIsThatOfEqualSharesButForLessThanASlotALayer) {
  PlanOptions equal = options_;
  equal.profile = Profile();
  for (const int64_t seq_len : {100, 129, 500, 1000, 2560, 4096, 8000, 100'000}) {
    ASSERT_EQ(CheckPlan(geometry_, options_, seq_len, 0), "");
    const RequestPlan plan = PlanRequest(geometry_, options_, seq_len, 0);
    const RequestPlan other = PlanRequest(geometry_, equal, seq_len, 0);
    int64_t budget = 0;
    for (const LayerPlan& layer : plan.layers) {
      EXPECT_LE(layer.bytes, layer.budget_bytes) << seq_len;
      budget += layer.budget_bytes;
    }
    EXPECT_LE(budget, geometry_.num_layers * other.layers[0].budget_bytes) << seq_len;
    if (seq_len < 2560) continue;  // the floor is more than the residuals of short prompts take
    EXPECT_LT(std::abs(plan.prompt_bytes - other.prompt_bytes), 12 * 2 * 18) << seq_len;
  }
}

TEST_P(ProfiledPlanTest, LayersWhoseErrorIsLargerGetMore) {
  const RequestPlan plan = PlanRequest(geometry_, options_, 4096, 0);
  EXPECT_LT(plan.layers[0].bytes, plan.layers[11].bytes);
  for (size_t layer = 1; layer < plan.layers.size(); ++layer) {
    EXPECT_LE(plan.layers[layer - 1].bytes, plan.layers[layer].bytes) << layer;
    EXPECT_EQ(plan.layers[layer].num_anchors, plan.layers[0].num_anchors);
  }
}

TEST_P(ProfiledPlanTest, ALayerAloneIsPlannedAsInItsRequest) {
  const RequestPlan plan = PlanRequest(geometry_, options_, 3000, 0);
  for (int64_t layer = 0; layer < geometry_.num_layers; ++layer) {
    const LayerPlan alone = PlanLayer(geometry_, options_, 3000, layer);
    EXPECT_EQ(alone.bytes, plan.layers[layer].bytes);
    EXPECT_EQ(alone.key_slots, plan.layers[layer].key_slots);
    EXPECT_EQ(alone.value_fine_slots, plan.layers[layer].value_fine_slots);
  }
}

TEST_P(ProfiledPlanTest, ThePapersLayoutHasEqualShares) {
  options_.layout = Layout::kPaper;
  const RequestPlan plan = PlanRequest(geometry_, options_, 4096, 0);
  for (const LayerPlan& layer : plan.layers) EXPECT_EQ(layer.bytes, plan.layers[0].bytes);
}

INSTANTIATE_TEST_SUITE_P(Shares, ProfiledPlanTest, testing::Values(50'000, 100'000, 200'000),
                         [](const auto& info) { return "theta" + std::to_string(info.param); });

}  // namespace
}  // namespace anchorage::kv
