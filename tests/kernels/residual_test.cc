#include "kernels/residual.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/residual.h"
#include "tests/kernels/kernel_testing.h"

namespace anchorage::kernels {
namespace {

constexpr int kDims[] = {8, 16, 24, 64, 80, 96, 128, 256, 1024};

std::vector<double> ToDoubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

struct Encoded {
  float scale;
  std::vector<uint8_t> codes;
};

Encoded Encode(const std::vector<float>& z, CodePacking packing, bool scale_bf16) {
  const int dim = static_cast<int>(z.size());
  Encoded encoded{0, std::vector<uint8_t>(dim / 4, 0xaa)};
  encoded.scale = EncodeResidual(dim, z.data(), packing, scale_bf16, encoded.codes.data());
  return encoded;
}

double SquaredError(const std::vector<float>& z, const Encoded& encoded, CodePacking packing) {
  std::vector<float> decoded(z.size());
  DecodeResidual(static_cast<int>(z.size()), encoded.codes.data(), encoded.scale, packing,
                 decoded.data());
  double sum = 0.0;
  for (size_t i = 0; i < z.size(); ++i) sum += std::pow(double{z[i]} - decoded[i], 2);
  return sum;
}

double SquaredNorm(const std::vector<float>& z) {
  double sum = 0.0;
  for (float x : z) sum += double{x} * x;
  return sum;
}

// Eq. 10 at D = 4: H_4 = [++++; +-+-; ++--; +--+], so U e_1 = s_1 (1, -1, 1, -1) / 2.
TEST(RotateResidualTest, MatchesHadamardByHand) {
  float x[4] = {0, 1, 0, 0};
  RotateResidual(4, x);
  const float half = 0.5f * ResidualSign(1);
  EXPECT_EQ(x[0], half);
  EXPECT_EQ(x[1], -half);
  EXPECT_EQ(x[2], half);
  EXPECT_EQ(x[3], -half);
}

// 24 = 3 blocks of 8: what is in one block stays there.
TEST(RotateResidualTest, KeepsBlocksOfTheLargestPowerOfTwoApart) {
  float x[24] = {};
  x[9] = 1;
  RotateResidual(24, x);
  for (int i = 0; i < 24; ++i) {
    if (i / 8 == 1) {
      EXPECT_NEAR(std::fabs(x[i]), 1 / std::sqrt(8.0), kUnit) << i;
    } else {
      EXPECT_EQ(x[i], 0.0f) << i;
    }
  }
}

TEST(RotateResidualTest, AgreesWithTheMatrixAndItsTranspose) {
  for (int dim : kDims) {
    const std::vector<float> x = RandomFloats(dim, 11);
    std::vector<double> expected = ToDoubles(x);
    std::vector<double> back = ToDoubles(x);
    reference::RotateResidual(dim, expected.data());
    reference::UnrotateResidual(dim, back.data());
    std::vector<float> rotated = x;
    std::vector<float> unrotated = x;
    RotateResidual(dim, rotated.data());
    UnrotateResidual(dim, unrotated.data());
    // log2(D) additions and two multiplications of values that stay below 5 |x|.
    const double tolerance = 12 * 5 * kUnit * 2;
    for (int i = 0; i < dim; ++i) {
      ASSERT_NEAR(rotated[i], expected[i], tolerance) << dim << " " << i;
      ASSERT_NEAR(unrotated[i], back[i], tolerance) << dim << " " << i;
    }
    UnrotateResidual(dim, rotated.data());
    for (int i = 0; i < dim; ++i) ASSERT_NEAR(rotated[i], x[i], 2 * tolerance);
  }
}

TEST(ResidualSignTest, IsBalancedAndFixed) {
  int sum = 0;
  for (int i = 0; i < 1024; ++i) {
    ASSERT_EQ(std::fabs(ResidualSign(i)), 1.0f);
    sum += static_cast<int>(ResidualSign(i));
  }
  EXPECT_LT(std::abs(sum), 100);  // three standard deviations
  // Codes on the wire depend on these: a change of sign is a change of format.
  const std::vector<int> first = {-1, -1, -1, 1, 1, -1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1};
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(ResidualSign(static_cast<int>(i)), first[i]);
}

// Four coordinates at the levels of scale 2: the code is exact. Linear: coordinate i in bits 2 i.
TEST(EncodeResidualTest, IsExactAtTheLevelsByHand) {
  const std::vector<float> z = {-2 * kOuterLevel, -2 * kInnerLevel, 2 * kInnerLevel,
                                2 * kOuterLevel};
  const Encoded encoded = Encode(z, CodePacking::kLinear, true);
  EXPECT_EQ(encoded.scale, 2.0f);
  EXPECT_EQ(encoded.codes[0], 0 | 1 << 2 | 2 << 4 | 3 << 6);
}

// |z| = (3, 1, 1, 1): with one outer level the best scale is (3 o + 3 i) / (o^2 + 3 i^2).
TEST(EncodeResidualTest, ScaleIsLeastSquaresByHand) {
  const Encoded encoded = Encode({1, -3, 1, -1}, CodePacking::kLinear, false);
  const double o = kOuterLevel;
  const double i = kInnerLevel;
  EXPECT_NEAR(encoded.scale, (3 * o + 3 * i) / (o * o + 3 * i * i), 2 * kUnit * 3);
  EXPECT_EQ(encoded.codes[0], 2 | 0 << 2 | 2 << 4 | 1 << 6);
}

TEST(EncodeResidualTest, AgreesWithTheBestScale) {
  for (int dim : kDims) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      std::vector<float> z = RandomFloats(dim, 100 + seed);
      if (seed % 4 == 1) z[seed % dim] *= 50;   // one outlier
      if (seed % 4 == 2) z.assign(dim, 0.25f);  // all equal
      if (seed % 4 == 3) {
        for (float& x : z) x *= 1e-12f;
      }
      const std::vector<double> exact = ToDoubles(z);
      const double best = reference::BestScale(dim, exact.data());
      const Encoded encoded = Encode(z, CodePacking::kPlanar, false);
      const double error = SquaredError(z, encoded, CodePacking::kPlanar);
      // Least squares is flat at its minimum; a float scale and float levels cost u |z| each way.
      ASSERT_NEAR(error, reference::Distortion(dim, exact.data(), best), 8 * kUnit * SquaredNorm(z))
          << dim << " " << seed;
    }
  }
}

TEST(EncodeResidualTest, CodesFitTheRoundedScale) {
  for (int dim : kDims) {
    const std::vector<float> z = RandomFloats(dim, 7);
    const Encoded encoded = Encode(z, CodePacking::kPlanar, true);
    EXPECT_EQ(ToFloat(ToBf16(encoded.scale)), encoded.scale);
    const std::vector<double> exact = ToDoubles(z);
    EXPECT_NEAR(SquaredError(z, encoded, CodePacking::kPlanar),
                reference::Distortion(dim, exact.data(), encoded.scale), 8 * kUnit * dim);
  }
}

TEST(EncodeResidualTest, ZeroHasScaleZero) {
  const std::vector<float> z(64, 0.0f);
  const Encoded encoded = Encode(z, CodePacking::kPlanar, true);
  EXPECT_EQ(encoded.scale, 0.0f);
  EXPECT_EQ(SquaredError(z, encoded, CodePacking::kPlanar), 0.0);
}

// Relative squared distortion of a Gaussian vector of 128 under the least-squares scale.
TEST(EncodeResidualTest, DistortionOfAGaussianIsThatOfTheCodebook) {
  double sum = 0.0;
  const int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    const std::vector<float> z = RandomFloats(128, 5000 + trial);
    sum += SquaredError(z, Encode(z, CodePacking::kPlanar, false), CodePacking::kPlanar) /
           SquaredNorm(z);
  }
  // One trial's standard deviation is about 0.012.
  EXPECT_NEAR(sum / trials, 0.1143, 0.0006);
}

TEST(DecodeResidualTest, PackingsHoldTheSameCodes) {
  for (int dim : kDims) {
    const std::vector<float> z = RandomFloats(dim, 3);
    const Encoded linear = Encode(z, CodePacking::kLinear, true);
    const Encoded planar = Encode(z, CodePacking::kPlanar, true);
    EXPECT_EQ(linear.scale, planar.scale);
    for (int i = 0; i < dim; ++i) {
      EXPECT_EQ(reference::DecodeCoordinate(dim, linear.codes.data(), linear.scale,
                                            CodePacking::kLinear, i),
                reference::DecodeCoordinate(dim, planar.codes.data(), planar.scale,
                                            CodePacking::kPlanar, i));
    }
    std::vector<uint8_t> repacked = linear.codes;
    repacked.insert(repacked.end(), linear.codes.begin(), linear.codes.end());
    RepackCodes(2, dim, CodePacking::kLinear, CodePacking::kPlanar, repacked.data());
    for (int i = 0; i < dim / 2; ++i) ASSERT_EQ(repacked[i], planar.codes[i % (dim / 4)]);
    RepackCodes(2, dim, CodePacking::kPlanar, CodePacking::kLinear, repacked.data());
    for (int i = 0; i < dim / 2; ++i) ASSERT_EQ(repacked[i], linear.codes[i % (dim / 4)]);
  }
}

// ---- Two codes ----

// scale level(c_i) + fine_scale level(f_i).
std::vector<float> DecodeTwice(int dim, const TwoScales& scales, CodePacking packing,
                               const std::vector<uint8_t>& codes,
                               const std::vector<uint8_t>& fine_codes) {
  std::vector<float> coarse(dim);
  std::vector<float> fine(dim);
  DecodeResidual(dim, codes.data(), scales.scale, packing, coarse.data());
  DecodeResidual(dim, fine_codes.data(), scales.fine_scale, packing, fine.data());
  for (int i = 0; i < dim; ++i) coarse[i] += fine[i];
  return coarse;
}

// Sums of a level times 2 and a level times 0.5 come back as they are. Outer levels of the first
// kind are as rare as in a Gaussian (12 of 64), where the fit starts.
TEST(TwoCodesTest, SumsOfTwoLevelsComeBackByHand) {
  constexpr float kLevels[] = {-kOuterLevel, -kInnerLevel, kInnerLevel, kOuterLevel};
  std::vector<float> z;
  for (int i = 0; i < 64; ++i) {
    const int coarse = i < 12 ? i % 2 * 3 : 1 + i % 2;
    z.push_back(2.0f * kLevels[coarse] + 0.5f * kLevels[i / 2 % 4]);
  }
  for (const CodePacking packing : {CodePacking::kLinear, CodePacking::kPlanar}) {
    std::vector<uint8_t> codes(16);
    std::vector<uint8_t> fine_codes(16);
    const TwoScales scales =
        EncodeResidualTwice(64, z.data(), packing, codes.data(), fine_codes.data());
    EXPECT_EQ(scales.scale, 2.0f);
    EXPECT_EQ(scales.fine_scale, 0.5f);
    const std::vector<float> back = DecodeTwice(64, scales, packing, codes, fine_codes);
    for (int i = 0; i < 64; ++i) EXPECT_NEAR(back[i], z[i], 4 * kUnit) << i;
  }
}

TEST(TwoCodesTest, LeavesAHundredthOfAGaussianAndPicksTheNearestLevels) {
  for (const int dim : {8, 64, 72, 80, 128, 256}) {
    double left = 0;
    double energy = 0;
    for (uint32_t seed = 0; seed < 200; ++seed) {
      const std::vector<float> z = RandomFloats(dim, 100 + seed);
      std::vector<uint8_t> codes(dim / 4);
      std::vector<uint8_t> fine_codes(dim / 4);
      const TwoScales scales =
          EncodeResidualTwice(dim, z.data(), CodePacking::kPlanar, codes.data(), fine_codes.data());
      const auto back = DecodeTwice(dim, scales, CodePacking::kPlanar, codes, fine_codes);
      for (int i = 0; i < dim; ++i) {
        const double error = std::fabs(double{z[i]} - back[i]);
        left += error * error;
        energy += double{z[i]} * z[i];
        ASSERT_LE(error, reference::NearestOfTwo(z[i], scales) + 16 * kUnit) << dim << " " << i;
      }
    }
    EXPECT_LT(left / energy, dim < 64 ? 0.013 : 0.0117) << dim;
  }
}

TEST(TwoCodesTest, ZeroAndHugeVectors) {
  std::vector<float> z(64, 0.0f);
  std::vector<uint8_t> codes(16);
  std::vector<uint8_t> fine_codes(16);
  const auto encode = [&] {
    return EncodeResidualTwice(64, z.data(), CodePacking::kPlanar, codes.data(), fine_codes.data());
  };
  EXPECT_EQ(encode().scale, 0.0f);
  EXPECT_EQ(encode().fine_scale, 0.0f);
  std::fill(z.begin(), z.end(), 3.0f);
  for (const float value : DecodeTwice(64, encode(), CodePacking::kPlanar, codes, fine_codes)) {
    EXPECT_NEAR(value, 3.0f, 0.4f);
  }
  std::fill(z.begin(), z.end(), 3e38f);
  z[5] = -3e38f;
  EXPECT_GT(encode().scale, 1e38f);
}

}  // namespace
}  // namespace anchorage::kernels
