#include "eval/next_token.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace anchorage::eval {
namespace {

std::vector<double> Logs(std::vector<double> p) {
  for (double& value : p) value = std::log(value);
  return p;
}

TEST(NextTokenTest, LogProbabilitiesByHand) {
  // exp: 1, 2, 1 of 4, whatever constant is added.
  const std::vector<float> logits = {100, 100 + std::log(2.0f), 100};
  const std::vector<double> log_p = LogProbabilities(logits);
  EXPECT_NEAR(std::exp(log_p[0]), 0.25, 1e-5);
  EXPECT_NEAR(std::exp(log_p[1]), 0.5, 1e-5);
}

TEST(NextTokenTest, DivergenceByHand) {
  const std::vector<double> p = Logs({0.5, 0.5});
  const std::vector<double> q = Logs({0.25, 0.75});
  // 1/2 ln 2 + 1/2 ln 2/3, and the other way round 1/4 ln 1/2 + 3/4 ln 3/2.
  EXPECT_NEAR(Divergence(p, q), 0.1438410, 1e-7);
  EXPECT_NEAR(Divergence(q, p), 0.1308120, 1e-7);
  EXPECT_EQ(Divergence(p, p), 0);
}

TEST(NextTokenTest, SymmetricDivergenceByHand) {
  const std::vector<double> p = Logs({0.5, 0.5});
  const std::vector<double> q = Logs({0.25, 0.75});
  // The middle is 3/8, 5/8: half of 1/2 ln 4/3 + 1/2 ln 4/5, and half of 1/4 ln 2/3 + 3/4 ln 6/5.
  EXPECT_NEAR(SymmetricDivergence(p, q), 0.0338221, 1e-7);
  EXPECT_EQ(SymmetricDivergence(p, q), SymmetricDivergence(q, p));
  EXPECT_EQ(SymmetricDivergence(p, p), 0);
  // Nothing in common: log 2, also where a probability is 0.
  EXPECT_NEAR(SymmetricDivergence(Logs({1, 0}), Logs({0, 1})), std::log(2.0), 1e-12);
}

TEST(NextTokenTest, AgreementIsAMeanOverPositions) {
  Agreement agreement;
  agreement.Add(Logs({0.5, 0.5}), Logs({0.5, 0.5}), 0);
  agreement.Add(Logs({0.6, 0.4}), Logs({0.25, 0.75}), 1);
  EXPECT_NEAR(agreement.mean_divergence(),
              (0.6 * std::log(0.6 / 0.25) + 0.4 * std::log(0.4 / 0.75)) / 2, 1e-12);
  EXPECT_EQ(agreement.top1(), 0.5);
  EXPECT_NEAR(agreement.mean_surprise(), -(std::log(0.5) + std::log(0.75)) / 2, 1e-12);
  EXPECT_GT(agreement.mean_symmetric(), 0);
}

}  // namespace
}  // namespace anchorage::eval
