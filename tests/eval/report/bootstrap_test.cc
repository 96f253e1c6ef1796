#include "eval/report/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "eval/random.h"

namespace anchorage::eval {
namespace {

TEST(RandomTest, IsSplitMix64) {
  Random random(1234567);
  // The reference implementation's first outputs for this seed.
  EXPECT_EQ(random.Next(), 6457827717110365317ull);
  EXPECT_EQ(random.Next(), 3203168211198807973ull);
}

TEST(RandomTest, NamesAreStreamsOfTheirOwn) {
  EXPECT_EQ(Random(1, "a").Next(), Random(1, "a").Next());
  EXPECT_NE(Random(1, "a").Next(), Random(1, "b").Next());
  EXPECT_NE(Random(1, "a").Next(), Random(2, "a").Next());
}

// The mean of n fair coins has standard error 0.5 / sqrt(n): its 95 % interval is 0.5 ± 1.96 of it.
TEST(BootstrapTest, IntervalOfAMeanIsThatOfTheNormalLaw) {
  std::vector<double> coins(400, 0.0);
  for (size_t i = 0; i < 200; ++i) coins[i] = 1;
  const Interval interval = BootstrapMean(coins, {.resamples = 4000, .seed = 7});
  EXPECT_EQ(interval.estimate, 0.5);
  EXPECT_NEAR(interval.low, 0.451, 0.004);
  EXPECT_NEAR(interval.high, 0.549, 0.004);
}

TEST(BootstrapTest, PairsCancelWhatTheyShare) {
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < 100; ++i) {
    b.push_back(i);
    a.push_back(i + 1 + (i % 2 == 0 ? 0.1 : -0.1));
  }
  const Interval interval = BootstrapMeanDifference(a, b);
  EXPECT_NEAR(interval.estimate, 1, 1e-9);
  EXPECT_NEAR(interval.low, 0.98, 0.01);  // unpaired it would be about 8 wide on either side
  EXPECT_NEAR(interval.high, 1.02, 0.01);
}

TEST(BootstrapTest, RatiosOfAConstantFactorHaveNoWidth) {
  const std::vector<double> b = {1, 2, 3, 50};
  std::vector<double> a;
  for (const double value : b) a.push_back(0.75 * value);
  for (const Interval& interval : {BootstrapRatio(a, b), BootstrapGeometricRatio(a, b)}) {
    EXPECT_NEAR(interval.estimate, 0.75, 1e-12);
    EXPECT_NEAR(interval.low, 0.75, 1e-12);
    EXPECT_NEAR(interval.high, 0.75, 1e-12);
  }
}

TEST(BootstrapTest, GeometricRatioByHand) {
  // sqrt(2 * 8) / sqrt(1 * 1)
  const Interval interval =
      BootstrapGeometricRatio(std::vector<double>{2, 8}, std::vector<double>{1, 1});
  EXPECT_NEAR(interval.estimate, 4, 1e-12);
  EXPECT_NEAR(interval.low, 2, 1e-12);
  EXPECT_NEAR(interval.high, 8, 1e-12);
}

TEST(BootstrapTest, NothingIsNotANumber) {
  EXPECT_TRUE(std::isnan(BootstrapMean({}).estimate));
  const std::vector<double> zeros = {0, 0};
  EXPECT_TRUE(std::isnan(BootstrapRatio(zeros, zeros).low));
}

TEST(McNemarTest, ByHand) {
  EXPECT_EQ(McNemarExact(0, 0), 1);
  EXPECT_NEAR(McNemarExact(0, 5), 2.0 / 32, 1e-12);
  EXPECT_NEAR(McNemarExact(5, 0), 2.0 / 32, 1e-12);
  EXPECT_NEAR(McNemarExact(1, 3), 2 * (1.0 + 4) / 16, 1e-12);
  EXPECT_EQ(McNemarExact(4, 4), 1);
}

}  // namespace
}  // namespace anchorage::eval
