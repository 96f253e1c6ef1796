#include "kernels/anchor_code.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace anchorage::kernels {
namespace {

// What is stored of a row, and what comes back.
struct Coded {
  int8_t exponent = 0;
  std::vector<int8_t> numbers;
  std::vector<float> decoded;
};

Coded Code(const std::vector<float>& x) {
  const int dim = static_cast<int>(x.size());
  std::vector<Bf16> row;
  for (const float value : x) row.push_back(ToBf16(value));
  Coded coded;
  coded.numbers.resize(x.size());
  coded.exponent = EncodeAnchor(dim, row.data(), coded.numbers.data());
  DecodeAnchors(1, dim, coded.numbers.data(), &coded.exponent, row.data());
  for (const Bf16 value : row) coded.decoded.push_back(ToFloat(value));
  return coded;
}

// The largest is below 2, so the step is 2^(1 - 7); 1.5 of it lies between two numbers.
TEST(AnchorCodeTest, ByHand) {
  const Coded coded = Code({1.0f, -1.5f, 0.0234375f, 0.0078125f, 0.0f});
  EXPECT_EQ(coded.exponent, -6);
  EXPECT_EQ(coded.numbers, (std::vector<int8_t>{64, -96, 2, 0, 0}));
  EXPECT_EQ(coded.decoded, (std::vector<float>{1.0f, -1.5f, 0.03125f, 0.0f, 0.0f}));
}

TEST(AnchorCodeTest, ALargestThatWouldRoundUpGetsTheNextStep) {
  EXPECT_EQ(Code({127.0f, 1.0f}).exponent, 0);
  const Coded coded = Code({127.5f, 1.0f});
  EXPECT_EQ(coded.exponent, 1);
  EXPECT_EQ(coded.numbers, (std::vector<int8_t>{64, 0})) << "ties to even";
}

TEST(AnchorCodeTest, IsOffByHalfAStepAtMostAndCodedAgainStaysTheSame) {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  for (const float size : {1e-30f, 1e-3f, 1.0f, 700.0f, 1e30f}) {
    std::vector<float> x(80);
    for (float& value : x) value = ToFloat(ToBf16(size * normal(engine)));
    const Coded once = Code(x);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(std::fabs(once.decoded[i] - x[i]), 0.5f * std::ldexp(1.0f, once.exponent));
    }
    EXPECT_EQ(Code(once.decoded).decoded, once.decoded);
  }
}

TEST(AnchorCodeTest, ItsEndsAreKept) {
  EXPECT_EQ(Code({0.0f, 0.0f}).decoded, (std::vector<float>{0.0f, 0.0f}));
  EXPECT_EQ(Code({1e-40f, 0.0f}).exponent, kLeastAnchorExponent);
  EXPECT_EQ(Code({1e-40f, 0.0f}).decoded[0], 0.0f);
  const Coded most = Code({3e38f, -3e38f});
  EXPECT_EQ(most.exponent, kMostAnchorExponent);
  EXPECT_EQ(most.numbers, (std::vector<int8_t>{127, -127}));
  EXPECT_LT(most.decoded[0], std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace anchorage::kernels
