#include "eval/ablation/ablation.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace anchorage::eval {
namespace {

using testing::HasSubstr;

TEST(ParseAblationTest, KnowsEveryNameAndEachDoesSomethingElse) {
  std::set<std::string> names;
  for (const AblationName& name : AblationNames()) {
    EXPECT_TRUE(names.insert(name.name).second) << name.name;
    EXPECT_NE(std::string(name.help), "");
    const auto parsed = ParseAblation(name.name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed == Ablation(), std::string(name.name) == "served") << name.name;
    for (const AblationName& other : AblationNames()) {
      if (&other == &name) continue;
      EXPECT_NE(*ParseAblation(other.name), *parsed) << other.name;
    }
  }
}

TEST(ParseAblationTest, JoinsNames) {
  const auto parsed = ParseAblation("rank-random+equal-heads+window-16");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->rank_by, RankBy::kRandom);
  EXPECT_TRUE(parsed->equal_heads);
  EXPECT_EQ(parsed->window_len, 16);
  EXPECT_FALSE(parsed->joint_sides);
}

TEST(ParseAblationTest, SaysWhatItDoesNotKnow) {
  for (const char* text : {"", "rank", "rank-random+", "+equal-heads", "equal-heads,no-sinks"}) {
    const auto status = ParseAblation(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank-cosine")) << text;
  }
}

TEST(ParseAblationTest, RefusesContradictions) {
  for (const char* text : {"rank-random+rank-cosine", "scale-rms+naive-2bit",
                           "no-residuals+scale-rms", "window-8+window-8"}) {
    EXPECT_THAT(std::string(ParseAblation(text).status().message()), HasSubstr("contradicts"));
  }
}

TEST(PlanOfTest, ChangesNothingThatIsNotAsked) {
  kv::PlanOptions served;
  served.theta_ppm = 100'000;
  served.num_pins = 2;
  for (const char* text : {"served", "rank-cosine", "equal-heads", "joint-sides", "no-residuals",
                           "naive-2bit", "scale-rms", "after-rope"}) {
    EXPECT_EQ(PlanOf(*ParseAblation(text), served), served) << text;
  }
}

TEST(PlanOfTest, SetsTheOptionsOfThePlan) {
  const auto plan_of = [](const char* text) { return PlanOf(*ParseAblation(text), {}); };
  EXPECT_EQ(plan_of("no-sinks").num_pins, 0);
  EXPECT_EQ(plan_of("unpooled-utility").utility_pool_width, 1);
  EXPECT_EQ(plan_of("window-64").window_len, 64);
  EXPECT_EQ(plan_of("one-code").fine_share_ppm, 0);
  kv::PlanOptions profiled;
  profiled.profile = {{0, 1000}, {5, 1}};
  EXPECT_EQ(PlanOf(ParseAblation("equal-layers").value(), profiled), kv::PlanOptions());
  const kv::LayerPlan plan = kv::PlanLayer({1, 2, 64}, plan_of("no-sinks+window-16"), 4096, 0);
  EXPECT_EQ(plan.window_len, 16);
  EXPECT_EQ(plan.num_pins, 0);
  EXPECT_EQ(plan.num_fitted, plan.num_anchors - 16);
}

}  // namespace
}  // namespace anchorage::eval
