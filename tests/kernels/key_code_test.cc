#include "kernels/key_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/reference/key_code.h"
#include "tests/kernels/kernel_testing.h"

namespace anchorage::kernels {
namespace {

constexpr int kDims[] = {8, 16, 24, 64, 72, 80, 96, 128, 256, 512};

// A head's code with its pairs in any order.
class TestCode {
 public:
  TestCode(int dim, float front, float middle) : order_(dim / 2), gain_{front, middle}, dim_(dim) {
    std::iota(order_.begin(), order_.end(), 0);
    std::mt19937 engine(dim);
    std::shuffle(order_.begin(), order_.end(), engine);
  }

  KeyCode view() const { return {dim_, order_.data(), gain_}; }

  // The part of a coordinate: 0 front, 1 middle, 2 rear.
  int PartOf(int coordinate) const {
    const auto pair = static_cast<uint8_t>(coordinate % (dim_ / 2));
    const auto at = std::find(order_.begin(), order_.end(), pair) - order_.begin();
    return at < dim_ / 8 ? 0 : at < dim_ / 8 + dim_ / 4 ? 1 : 2;
  }

 private:
  std::vector<uint8_t> order_;
  float gain_[2];
  int dim_;
};

// Gaussian coordinates whose size depends on their part: 1, 0.5, 0.1.
std::vector<float> Key(const TestCode& code, int dim, uint32_t seed) {
  std::vector<float> x = RandomFloats(dim, seed);
  constexpr float kSizes[] = {1.0f, 0.5f, 0.1f};
  for (int d = 0; d < dim; ++d) x[d] *= kSizes[code.PartOf(d)];
  return x;
}

struct Encoded {
  float scale;
  std::vector<uint8_t> codes;
};

Encoded Encode(const TestCode& code, const std::vector<float>& x, CodePacking packing) {
  Encoded encoded{0, std::vector<uint8_t>(x.size() / 4, 0xaa)};
  encoded.scale = EncodeKey(code.view(), x.data(), packing, encoded.codes.data());
  return encoded;
}

std::vector<float> Decode(const TestCode& code, const Encoded& encoded, CodePacking packing) {
  std::vector<float> x(4 * encoded.codes.size(), NAN);
  DecodeKey(code.view(), encoded.codes.data(), encoded.scale, packing, x.data());
  return x;
}

double SquaredDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - b[i], 2);
  return sum;
}

// D = 8, pairs in the order 2, 0, 3, 1, gains 0.5 and 1. The front is (x_2, x_6) and the middle
// (x_0, x_4, x_3, x_7). Symbols 3 for all but the last of the middle, 0: the front is
// 0.5 x 1.675 outer twice, which U^T takes to sqrt(2) times that at x_2; the middle is outer
// (1, 1, 1, -1), which U^T takes to outer (1, 1, 1, -1) with the signs of the coordinates.
TEST(KeyCodeTest, DecodesByHand) {
  const uint8_t order[4] = {2, 0, 3, 1};
  const float gain[2] = {0.5f, 1.0f};
  const uint8_t codes[2] = {0xff, 0x3f};
  float x[8];
  DecodeKey({8, order, gain}, codes, 2.0f, CodePacking::kLinear, x);
  const float outer = 2 * kOuterLevel;
  const float expected[8] = {ResidualSign(0) * outer,
                             0,
                             ResidualSign(0) * std::sqrt(2.0f) * 0.5f * 1.675f * outer,
                             ResidualSign(2) * outer,
                             ResidualSign(1) * outer,
                             0,
                             0,
                             -ResidualSign(3) * outer};
  for (int d = 0; d < 8; ++d) EXPECT_NEAR(x[d], expected[d], 1e-6) << d;
}

TEST(KeyCodeTest, DecodesLikeTheReference) {
  for (const int dim : kDims) {
    const TestCode code(dim, 0.7f, 0.3f);
    std::vector<uint8_t> codes(dim / 4);
    std::mt19937 engine(1);
    for (uint8_t& byte : codes) byte = static_cast<uint8_t>(engine());
    for (const CodePacking packing : {CodePacking::kLinear, CodePacking::kPlanar}) {
      std::vector<double> expected(dim);
      reference::DecodeKey(code.view(), codes.data(), 1.5, packing, expected.data());
      const std::vector<float> x = Decode(code, {1.5f, codes}, packing);
      for (int d = 0; d < dim; ++d) ASSERT_NEAR(x[d], expected[d], 40 * kUnit) << dim;
    }
  }
}

// q . T^T M^T lev(c) = (M T q) . lev(c)
TEST(KeyCodeTest, AQueryMeetsTheSymbolsAsItMeetsTheKey) {
  for (const int dim : kDims) {
    const TestCode code(dim, 0.7f, 0.3f);
    const std::vector<float> q = RandomFloats(dim, 2);
    const Encoded encoded = Encode(code, Key(code, dim, 3), CodePacking::kPlanar);
    std::vector<float> spread(dim, NAN);
    std::vector<float> levels(dim);
    SpreadQuery(code.view(), q.data(), spread.data());
    DecodeResidual(dim, encoded.codes.data(), encoded.scale, CodePacking::kPlanar, levels.data());
    const std::vector<float> key = Decode(code, encoded, CodePacking::kPlanar);
    const double expected = std::inner_product(q.begin(), q.end(), key.begin(), 0.0);
    const double dot = std::inner_product(spread.begin(), spread.end(), levels.begin(), 0.0);
    EXPECT_NEAR(dot, expected, 1e-4) << dim;
  }
}

TEST(KeyCodeTest, SymbolsAreTheBestForTheirScaleAndTheScaleIsNearlyTheBest) {
  for (const int dim : {64, 72, 128}) {
    const TestCode code(dim, 1.0f, 0.5f);
    for (uint32_t seed = 10; seed < 16; ++seed) {
      const std::vector<float> x = Key(code, dim, seed);
      const std::vector<double> exact(x.begin(), x.end());
      const auto distortion = [&](double scale) {
        return reference::KeyDistortion(code.view(), exact.data(), scale);
      };
      const Encoded encoded = Encode(code, x, CodePacking::kPlanar);
      const double left = SquaredDistance(x, Decode(code, encoded, CodePacking::kPlanar));
      EXPECT_NEAR(left, distortion(encoded.scale), 1e-5 * dim);
      EXPECT_EQ(encoded.scale, ToFloat(ToBf16(encoded.scale)));
      double best = std::numeric_limits<double>::infinity();
      for (double scale = 0.5; scale < 2; scale += 0.02) best = std::min(best, distortion(scale));
      EXPECT_LE(left, 1.1 * best) << dim << " " << seed;
    }
  }
}

// Parts of sizes 1, 0.5 and 0.1 in 64 coordinates: 16 x 1 + 32 x 0.25 + 16 x 0.01 in all. Even bits
// leave 0.117 of it; here 0.012 of the front, 0.117 of the middle and all of the rear are left.
TEST(KeyCodeTest, LeavesLessThanEvenBitsWhereSizesDiffer) {
  const TestCode code(64, 1.0f, 0.5f);
  double left = 0;
  double even = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::vector<float> x = Key(code, 64, seed);
    left += SquaredDistance(
        x, Decode(code, Encode(code, x, CodePacking::kPlanar), CodePacking::kPlanar));
    RotateResidual(64, x.data());
    std::vector<uint8_t> codes(16);
    std::vector<float> decoded(64);
    const float scale = EncodeResidual(64, x.data(), CodePacking::kPlanar, true, codes.data());
    DecodeResidual(64, codes.data(), scale, CodePacking::kPlanar, decoded.data());
    even += SquaredDistance(x, decoded);
  }
  EXPECT_LT(left, 0.65 * even);
}

TEST(KeyCodeTest, TheRearIsNotCoded) {
  const TestCode code(64, 1.0f, 0.5f);
  const std::vector<float> x =
      Decode(code, Encode(code, Key(code, 64, 5), CodePacking::kPlanar), CodePacking::kPlanar);
  for (int d = 0; d < 64; ++d) EXPECT_EQ(x[d] == 0, code.PartOf(d) == 2) << d;
}

TEST(KeyCodeTest, NothingStaysNothing) {
  for (const auto& [front, middle] : {std::pair(1.0f, 1.0f), std::pair(0.0f, 0.0f)}) {
    const TestCode code(64, front, middle);
    const std::vector<float> zeros(64);
    EXPECT_EQ(Encode(code, zeros, CodePacking::kPlanar).scale, 0);
    EXPECT_EQ(Decode(code, Encode(code, zeros, CodePacking::kPlanar), CodePacking::kPlanar), zeros);
  }
  const TestCode none(64, 0.0f, 0.0f);
  EXPECT_EQ(Encode(none, Key(none, 64, 6), CodePacking::kPlanar).scale, 0);
}

TEST(KeyCodeTest, SaysWhatIsNotFinite) {
  const TestCode code(64, 1.0f, 0.5f);
  for (int d = 0; d < 64; ++d) {
    std::vector<float> x = Key(code, 64, 7);
    x[d] = std::numeric_limits<float>::infinity();
    const bool is_rear = code.PartOf(d) == 2;  // which nothing is kept of
    EXPECT_EQ(std::isfinite(Encode(code, x, CodePacking::kPlanar).scale), is_rear) << d;
  }
}

}  // namespace
}  // namespace anchorage::kernels
