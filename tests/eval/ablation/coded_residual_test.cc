#include "eval/ablation/coded_residual.h"

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace anchorage::eval {
namespace {

constexpr ResidualCode kAll[] = {ResidualCode::kLeastSquares, ResidualCode::kRms,
                                 ResidualCode::kAbsMax, ResidualCode::kAbsMaxOuter,
                                 ResidualCode::kMinMax};

std::vector<float> Gaussian(std::mt19937& random, size_t dim) {
  std::normal_distribution<float> normal;
  std::vector<float> x(dim);
  for (float& value : x) value = 3.0f * normal(random);
  return x;
}

// What is added to a row of zeros.
std::vector<float> Coded(ResidualCode code, std::vector<float> residual, int num_codes = 1) {
  std::vector<float> row(residual.size());
  EXPECT_TRUE(AddCodedResidual(code, num_codes, residual, row));
  return row;
}

double SquaredDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - b[i], 2);
  return sum;
}

// Mean of |x - coded|^2 / |x|^2 over Gaussian vectors of 128 coordinates.
double Distortion(ResidualCode code, int num_codes = 1) {
  std::mt19937 random(5);
  double sum = 0;
  constexpr int kVectors = 500;
  for (int i = 0; i < kVectors; ++i) {
    const std::vector<float> x = Gaussian(random, 128);
    sum += SquaredDistance(x, Coded(code, x, num_codes)) /
           SquaredDistance(x, std::vector<float>(x.size()));
  }
  return sum / kVectors;
}

TEST(CodedResidualTest, DistortionOfAGaussianIsThatOfEachScale) {
  EXPECT_NEAR(Distortion(ResidualCode::kLeastSquares), 0.1143, 0.001);
  EXPECT_NEAR(Distortion(ResidualCode::kRms), 0.116, 0.002);
  EXPECT_NEAR(Distortion(ResidualCode::kAbsMaxOuter), 0.27, 0.02);
  EXPECT_NEAR(Distortion(ResidualCode::kAbsMax), 0.62, 0.02);
}

TEST(CodedResidualTest, AMinMaxCodeHasFourEvenLevelsFromTheSmallestToTheLargest) {
  std::mt19937 random(6);
  const std::vector<float> x = Gaussian(random, 64);
  const std::vector<float> coded = Coded(ResidualCode::kMinMax, x);
  const std::set<float> levels(coded.begin(), coded.end());
  ASSERT_EQ(levels.size(), 4u);
  const float low = *std::min_element(x.begin(), x.end());
  const float high = *std::max_element(x.begin(), x.end());
  const float step = (high - low) / 3;
  float expected = low;
  for (const float level : levels) {
    EXPECT_NEAR(level, expected, 0.02f * step);  // rounded to bf16
    expected += step;
  }
  for (size_t i = 0; i < x.size(); ++i) EXPECT_LE(std::fabs(x[i] - coded[i]), 0.52f * step);
}

TEST(CodedResidualTest, AMinMaxCodeCostsOneMoreNumber) {
  EXPECT_EQ(SlotBytes(ResidualCode::kLeastSquares, 64), 18);
  EXPECT_EQ(SlotBytes(ResidualCode::kAbsMax, 64), 18);
  EXPECT_EQ(SlotBytes(ResidualCode::kMinMax, 64), 20);
}

TEST(CodedResidualTest, ASecondCodeLeavesLess) {
  EXPECT_NEAR(Distortion(ResidualCode::kLeastSquares, 2), 0.010, 0.001);
  for (const ResidualCode code : kAll) {
    EXPECT_LT(Distortion(code, 2), 0.7 * Distortion(code)) << static_cast<int>(code);
  }
}

TEST(CodedResidualTest, ZeroStaysZeroAndAConstantStaysItself) {
  const std::vector<float> zero(64);
  for (const ResidualCode code : kAll) EXPECT_EQ(Coded(code, zero), zero);
  const std::vector<float> constant(64, 2.0f);
  EXPECT_EQ(Coded(ResidualCode::kMinMax, constant), constant);
}

TEST(CodedResidualTest, SaysWhenAScaleIsNotFinite) {
  for (const ResidualCode code : kAll) {
    std::vector<float> residual(64, std::numeric_limits<float>::max());
    residual[3] = -residual[3];
    std::vector<float> row(64);
    EXPECT_FALSE(AddCodedResidual(code, 1, residual, row));
  }
}

}  // namespace
}  // namespace anchorage::eval
