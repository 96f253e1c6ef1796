#include "router/pair_choice.h"

#include <gtest/gtest.h>

namespace anchorage::router {
namespace {

constexpr uint64_t kModel = 7;
constexpr uint64_t kOtherModel = 8;

TEST(PairChoiceTest, PrefillWithTheShortestQueueInTokens) {
  const PrefillCandidate candidates[] = {{1, kModel, 500}, {2, kModel, 10}, {3, kModel, 10}};
  EXPECT_EQ(*ChoosePrefill(candidates), 2u);
  EXPECT_FALSE(ChoosePrefill({}).has_value());
}

TEST(PairChoiceTest, DecodeWithTheMostHeadroomThatSuffices) {
  const DecodeCandidate candidates[] = {
      {1, kModel, 50}, {2, kModel, 80}, {3, kModel, 80}, {4, kOtherModel, 90}};
  EXPECT_EQ(*ChooseDecode(candidates, kModel, 80), 2u);
  EXPECT_FALSE(ChooseDecode(candidates, kModel, 81).has_value());
  EXPECT_EQ(*ChooseDecode(candidates, kOtherModel, 81), 4u);
  EXPECT_FALSE(ChooseDecode({}, kModel, 0).has_value());
}

TEST(PairChoiceTest, NodesOfDifferentModelsAreNeverPaired) {
  const PrefillCandidate prefills[] = {{1, kModel, 0}, {2, kOtherModel, 100}};
  const DecodeCandidate decodes[] = {{3, kOtherModel, 80}};
  const auto pair = ChoosePair(prefills, decodes, 80);
  ASSERT_TRUE(pair.has_value());
  EXPECT_EQ(pair->prefill, 2u);  // its queue is longer, and only it has a partner
  EXPECT_EQ(pair->decode, 3u);
  EXPECT_FALSE(ChoosePair({prefills, 1}, decodes, 80).has_value());
}

TEST(PairChoiceTest, AFullPartnerSendsTheRequestToALongerQueue) {
  const PrefillCandidate prefills[] = {{1, kModel, 5}, {2, kOtherModel, 9}, {3, kOtherModel, 8}};
  const DecodeCandidate decodes[] = {{4, kModel, 79}, {5, kOtherModel, 80}};
  const auto pair = ChoosePair(prefills, decodes, 80);
  ASSERT_TRUE(pair.has_value());
  EXPECT_EQ(pair->prefill, 3u);
  EXPECT_EQ(pair->decode, 5u);
  EXPECT_EQ(ChoosePair(prefills, decodes, 79)->prefill, 1u);
}

}  // namespace
}  // namespace anchorage::router
