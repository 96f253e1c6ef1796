#include "eval/candidate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace anchorage::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<Candidate>> Make(const std::vector<std::string>& methods,
                                            const std::vector<double>& ratios) {
  kv::PlanOptions compact;
  compact.num_pins = 9;
  compact.floor_tokens = 99;
  return MakeCandidates(methods, ratios, compact);
}

TEST(CandidateTest, TheFullCacheComesFirstAndOnce) {
  for (const std::vector<std::string>& methods :
       {std::vector<std::string>{"compact", "full", "paper"}, {"compact", "paper"}}) {
    const auto candidates = Make(methods, {5, 2.5});
    ASSERT_TRUE(candidates.ok()) << candidates.status();
    std::vector<std::string> names;
    for (const Candidate& candidate : *candidates) names.push_back(candidate.name());
    EXPECT_THAT(names, ElementsAre("full", "compact 5x", "compact 2.5x", "paper 5x", "paper 2.5x"));
  }
}

TEST(CandidateTest, EachHasThePlanOfItsName) {
  const auto candidates = Make({"compact", "paper"}, {10});
  ASSERT_TRUE(candidates.ok());
  EXPECT_EQ((*candidates)[0].options.layout, kv::Layout::kDense);
  EXPECT_EQ((*candidates)[0].options.floor_tokens, kv::PlanOptions().floor_tokens);
  EXPECT_EQ((*candidates)[1].options.layout, kv::Layout::kCompact);
  EXPECT_EQ((*candidates)[1].options.theta_ppm, 100'000);
  EXPECT_EQ((*candidates)[1].options.num_pins, 9);
  EXPECT_EQ((*candidates)[2].options.layout, kv::Layout::kPaper);
  EXPECT_EQ((*candidates)[2].options.num_pins, 0);
  EXPECT_EQ((*candidates)[2].options.floor_tokens, 99);
}

TEST(CandidateTest, AnAblationIsAMethod) {
  const auto candidates = Make({"compact", "rank-random", "snapkv", "recent"}, {10});
  ASSERT_TRUE(candidates.ok()) << candidates.status();
  EXPECT_FALSE((*candidates)[1].ablation);
  ASSERT_TRUE((*candidates)[2].ablation);
  EXPECT_EQ((*candidates)[2].ablation->rank_by, RankBy::kRandom);
  EXPECT_EQ((*candidates)[2].name(), "rank-random 10x");
  EXPECT_EQ((*candidates)[3].options.layout, kv::Layout::kSnapKv);
  EXPECT_EQ((*candidates)[4].options.layout, kv::Layout::kRecent);
}

TEST(CandidateTest, RefusesWithARemedy) {
  const auto refused = [](const std::vector<std::string>& methods,
                          const std::vector<double>& ratios, const std::string& reason) {
    EXPECT_THAT(std::string(Make(methods, ratios).status().message()), HasSubstr(reason));
  };
  refused({"zip"}, {5}, "'zip' is none of full, compact, paper");
  refused({"paper", "paper"}, {5}, "'paper' stands there twice");
  refused({"paper"}, {5, 5}, "5 stands there twice");
  refused({"paper"}, {0.5}, "0.5 is not a compression of 1 to 1000000");
  refused({"paper"}, {1e9}, "1e+09 is not a compression of 1 to 1000000");
  refused({"paper"}, {}, "--ratios");
}

}  // namespace
}  // namespace anchorage::eval
