#include "eval/fidelity/attention_probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "eval/fidelity/result.h"

namespace anchorage::eval {
namespace {

using Row = std::vector<float>;

TEST(AttentionProbeTest, CosineByHand) {
  EXPECT_NEAR(Cosine(Row{3, 4}, Row{4, 3}), 24.0 / 25, 1e-12);
  EXPECT_NEAR(Cosine(Row{1, 0}, Row{0, 2}), 0, 1e-12);
  EXPECT_NEAR(Cosine(Row{1, 2}, Row{-2, -4}), -1, 1e-12);
  EXPECT_EQ(Cosine(Row{0, 0}, Row{0, 0}), 1);
  EXPECT_EQ(Cosine(Row{0, 0}, Row{1, 0}), 0);
}

TEST(AttentionProbeTest, RelativeErrorByHand) {
  RelativeError error;
  EXPECT_EQ(error.value(), 0);
  error.Add(3, 3);
  error.Add(-4, -3);  // off by 1 of |(3, -4)| = 5
  EXPECT_NEAR(error.value(), 0.2, 1e-12);
}

TEST(AttentionProbeTest, BinsHoldWhatLiesUpToTheirEnds) {
  EXPECT_EQ(DistanceBinOf(1), 0);
  EXPECT_EQ(DistanceBinOf(-1), kDistanceBins - 1);
  EXPECT_EQ(DistanceBinEnd(kDistanceBins - 1), 2);
  EXPECT_NEAR(DistanceBinEnd(40), 0.1, 1e-12);
  EXPECT_EQ(DistanceBinOf(0.91), 40);  // 0.09: above 0.0794, below 0.1
  EXPECT_EQ(DistanceBinOf(0.89), 41);
  for (int bin = 1; bin < kDistanceBins; ++bin) {
    EXPECT_GT(DistanceBinEnd(bin), DistanceBinEnd(bin - 1));
    const double middle = (DistanceBinEnd(bin) + DistanceBinEnd(bin - 1)) / 2;
    EXPECT_EQ(DistanceBinOf(1 - middle), bin);
  }
}

}  // namespace
}  // namespace anchorage::eval
