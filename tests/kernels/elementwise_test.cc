#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/reference/elementwise.h"
#include "tests/kernels/kernel_testing.h"

namespace anchorage::kernels {
namespace {

constexpr int64_t kManyRows = kSanitized ? 300 : 2000;

class RmsNormTest : public IsaTest {};
class SiluMulTest : public IsaTest {};
class ApplyRopeTest : public IsaTest {};
class Bf16RowTest : public IsaTest {};

TEST_P(RmsNormTest, IsTheHandComputedCase) {
  // mean(9, 16) = 12.5, plus eps 12.5 is 25: x / 5.
  Stream stream(1);
  const float x[2] = {3, -4};
  const float weight[2] = {10, 5};
  float out[2];
  ASSERT_EQ(RmsNorm(1, 2, x, weight, 12.5f, out, stream), Status::kOk);
  EXPECT_FLOAT_EQ(out[0], 6);
  EXPECT_FLOAT_EQ(out[1], -4);
}

TEST_P(RmsNormTest, AgreesWithTheReference) {
  Stream stream(2);
  for (const int64_t dim : {1, 3, 7, 8, 15, 16, 17, 576, 1025}) {
    const int64_t rows = 5;
    const std::vector<float> x = RandomFloats(rows * dim, 1);
    const std::vector<float> weight = RandomFloats(dim, 2);
    std::vector<float> out(rows * dim);
    std::vector<double> expected(rows * dim);
    ASSERT_EQ(RmsNorm(rows, dim, x.data(), weight.data(), 1e-5f, out.data(), stream), Status::kOk);
    reference::RmsNorm(rows, dim, x.data(), weight.data(), 1e-5f, expected.data());
    // A sum of squares of n terms errs by at most n roundings, its root by half of that; five more
    // for mean, eps, root, inverse and the two products.
    const double c = static_cast<double>(dim) / 2 + 5;
    for (int64_t i = 0; i < rows * dim; ++i) {
      ASSERT_NEAR(out[i], expected[i], c * kUnit * std::abs(expected[i])) << dim << " " << i;
    }
  }
}

TEST_P(RmsNormTest, GivesARowTheSameBitsInAnyCall) {
  const int64_t dim = 83;
  const std::vector<float> x = RandomFloats(kManyRows * dim, 3);
  const std::vector<float> weight = RandomFloats(dim, 4);
  Stream one(1);
  std::vector<float> expected(x.size());
  for (int64_t row = 0; row < kManyRows; ++row) {
    ASSERT_EQ(RmsNorm(1, dim, &x[row * dim], weight.data(), 1e-5f, &expected[row * dim], one),
              Status::kOk);
  }
  for (const int threads : {1, 2, 3}) {
    Stream stream(threads);
    for (const int64_t rows : {int64_t{1}, int64_t{3}, int64_t{64}, kManyRows}) {
      std::vector<float> in_place(x.begin(), x.begin() + rows * dim);
      ASSERT_EQ(RmsNorm(rows, dim, in_place.data(), weight.data(), 1e-5f, in_place.data(), stream),
                Status::kOk);
      EXPECT_TRUE(SameBits(in_place.data(), expected.data(), rows * dim)) << threads << " " << rows;
    }
  }
}

TEST_P(RmsNormTest, RejectsSizesThatAreNone) {
  Stream stream(1);
  EXPECT_EQ(RmsNorm(-1, 8, nullptr, nullptr, 0, nullptr, stream), Status::kInvalidShape);
  EXPECT_EQ(RmsNorm(1, 0, nullptr, nullptr, 0, nullptr, stream), Status::kInvalidShape);
  EXPECT_EQ(RmsNorm(0, 8, nullptr, nullptr, 0, nullptr, stream), Status::kOk);
}

TEST_P(SiluMulTest, IsTheHandComputedCase) {
  // silu(0) = 0; silu(ln 3) = ln 3 / (1 + 1/3) = 3/4 ln 3.
  Stream stream(1);
  const float gate[2] = {0, std::log(3.0f)};
  const float up[2] = {5, 4};
  float out[2];
  ASSERT_EQ(SiluMul(2, gate, up, out, stream), Status::kOk);
  EXPECT_EQ(out[0], 0);
  EXPECT_FLOAT_EQ(out[1], 3 * std::log(3.0f));
}

TEST_P(SiluMulTest, StaysWithinTheErrorOfExpOverItsWholeRange) {
  // Below zero silu(x) is about x e^x, so this pins the vector exp: 2 ulp = 4 units by its own
  // contract and four roundings around it.
  Stream stream(1);
  constexpr int64_t kCount = kSanitized ? 20000 : 400000;
  std::vector<float> gate(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    gate[i] = static_cast<float>(-86.5 + 173.0 * static_cast<double>(i) / kCount);
  }
  const std::vector<float> up(kCount, 1.0f);
  std::vector<float> out(kCount);
  std::vector<double> expected(kCount);
  ASSERT_EQ(SiluMul(kCount, gate.data(), up.data(), out.data(), stream), Status::kOk);
  reference::SiluMul(kCount, gate.data(), up.data(), expected.data());
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(out[i], expected[i], 8 * kUnit * std::abs(expected[i])) << gate[i];
  }
}

TEST_P(SiluMulTest, StaysFiniteFarOutside) {
  Stream stream(1);
  const float gate[4] = {-1e4f, -100.0f, 100.0f, 1e4f};
  const float up[4] = {1, 1, 1, 1};
  float out[4];
  ASSERT_EQ(SiluMul(4, gate, up, out, stream), Status::kOk);
  EXPECT_NEAR(out[0], 0, 1e-33);
  EXPECT_NEAR(out[1], 0, 1e-33);
  EXPECT_EQ(out[2], 100.0f);
  EXPECT_EQ(out[3], 1e4f);
}

TEST_P(SiluMulTest, GivesAnElementTheSameBitsInAnyCall) {
  const int64_t count = 50021;
  const std::vector<float> gate = RandomFloats(count, 5);
  const std::vector<float> up = RandomFloats(count, 6);
  Stream one(1);
  std::vector<float> expected(count);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(SiluMul(1, &gate[i], &up[i], &expected[i], one), Status::kOk);
  }
  for (const int threads : {1, 2, 3}) {
    Stream stream(threads);
    for (const int64_t part : {int64_t{1}, int64_t{7}, int64_t{64}, count}) {
      std::vector<float> in_place(gate.begin(), gate.begin() + part);
      ASSERT_EQ(SiluMul(part, in_place.data(), up.data(), in_place.data(), stream), Status::kOk);
      EXPECT_TRUE(SameBits(in_place.data(), expected.data(), part)) << threads << " " << part;
    }
  }
}

TEST_P(ApplyRopeTest, IsTheHandComputedCase) {
  // Position 1 turns pair (x0, x1) by 90 degrees: (3, 4) becomes (-4, 3). Position 0 turns nothing.
  const float cos[2] = {1, 0};
  const float sin[2] = {0, 1};
  const RopeView rope = {cos, sin, 2, 2};
  Stream stream(1);
  float x[4] = {3, 4, 3, 4};
  ASSERT_EQ(ApplyRope(2, 1, 2, rope, 0, nullptr, x, stream), Status::kOk);
  EXPECT_EQ(x[0], 3);
  EXPECT_EQ(x[1], 4);
  EXPECT_EQ(x[2], -4);
  EXPECT_EQ(x[3], 3);
}

TEST_P(ApplyRopeTest, AgreesWithTheReferenceOnStridedRows) {
  Stream stream(2);
  for (const int head_dim : {2, 6, 16, 64, 80, 96, 128, 256}) {
    const TestRope rope(head_dim, 40);
    const int num_heads = 3;
    const int64_t rows = 17;
    const int64_t stride = num_heads * head_dim + 5;
    const std::vector<float> x = RandomFloats(rows * stride, 7);
    std::vector<int32_t> positions(rows);
    for (int64_t row = 0; row < rows; ++row) positions[row] = static_cast<int32_t>(row * 7 % 40);
    for (const int32_t* listed :
         {static_cast<const int32_t*>(nullptr), std::as_const(positions).data()}) {
      std::vector<float> out = x;
      std::vector<double> expected(x.begin(), x.end());
      ASSERT_EQ(ApplyRope(rows, num_heads, stride, rope.view(), 20, listed, out.data(), stream),
                Status::kOk);
      reference::ApplyRope(rows, num_heads, stride, rope.view(), 20, listed, expected.data());
      for (size_t i = 0; i < x.size(); ++i) {
        // Two products and a sum, three roundings, of two terms no larger than |x| <= 5.
        ASSERT_NEAR(out[i], expected[i], 3 * kUnit * 10) << head_dim << " " << i;
      }
      for (int64_t row = 0; row < rows; ++row) {
        EXPECT_TRUE(SameBits(&out[row * stride + stride - 5], &x[row * stride + stride - 5], 5));
      }
    }
  }
}

TEST_P(ApplyRopeTest, GivesARowTheSameBitsInAnyCall) {
  const TestRope rope(24, kManyRows);
  const std::vector<float> x = RandomFloats(kManyRows * 48, 8);
  Stream one(1);
  std::vector<float> expected = x;
  for (int32_t row = 0; row < kManyRows; ++row) {
    ASSERT_EQ(ApplyRope(1, 2, 48, rope.view(), 0, &row, &expected[row * 48], one), Status::kOk);
  }
  for (const int threads : {1, 2, 3}) {
    Stream stream(threads);
    for (const int64_t rows : {int64_t{1}, int64_t{3}, int64_t{64}, kManyRows}) {
      std::vector<float> out(x.begin(), x.begin() + rows * 48);
      ASSERT_EQ(ApplyRope(rows, 2, 48, rope.view(), 0, nullptr, out.data(), stream), Status::kOk);
      EXPECT_TRUE(SameBits(out.data(), expected.data(), rows * 48)) << threads << " " << rows;
    }
  }
}

TEST_P(ApplyRopeTest, RejectsPositionsOutsideTheTable) {
  const TestRope rope(8, 10);
  Stream stream(1);
  std::vector<float> x(24, 1.0f);
  const int32_t too_far[3] = {0, 10, 1};
  const int32_t negative[3] = {0, -1, 1};
  const auto apply = [&](int64_t stride, int64_t first, const int32_t* positions) {
    return ApplyRope(3, 1, stride, rope.view(), first, positions, x.data(), stream);
  };
  EXPECT_EQ(apply(8, 0, too_far), Status::kInvalidShape);
  EXPECT_EQ(apply(8, 0, negative), Status::kInvalidShape);
  EXPECT_EQ(apply(8, 8, nullptr), Status::kInvalidShape);
  EXPECT_EQ(apply(8, -1, nullptr), Status::kInvalidShape);
  EXPECT_EQ(apply(7, 0, nullptr), Status::kInvalidShape);
  EXPECT_EQ(x, std::vector<float>(24, 1.0f));
  EXPECT_EQ(apply(8, 7, nullptr), Status::kOk);
}

TEST_P(Bf16RowTest, ConvertsAsTheScalarDoes) {
  for (const int64_t count : {0, 1, 7, 8, 9, 1000}) {
    std::vector<float> x = RandomFloats(count, 9);
    if (count > 8) {
      x[0] = std::numeric_limits<float>::quiet_NaN();
      x[1] = std::bit_cast<float>(0xff800001u);
      x[2] = -INFINITY;
      x[3] = std::numeric_limits<float>::max();
      x[4] = 1.0f + 0x1p-8f;
      x[5] = 1.0f + 3 * 0x1p-8f;
      x[6] = -0.0f;
      x[7] = 0x1p-140f;
    }
    std::vector<Bf16> rounded(count);
    std::vector<float> back(count);
    ToBf16Row(count, x.data(), rounded.data());
    ToFloatRow(count, rounded.data(), back.data());
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(rounded[i].bits, ToBf16(x[i]).bits) << i;
      EXPECT_EQ(std::bit_cast<uint32_t>(back[i]), uint32_t{rounded[i].bits} << 16) << i;
    }
  }
}

TEST_P(Bf16RowTest, FindsTheFirstNonFinite) {
  std::vector<Bf16> x = RandomBf16(200, 10);
  EXPECT_EQ(FirstNonFinite(200, x.data()), -1);
  EXPECT_EQ(FirstNonFinite(0, x.data()), -1);
  for (const int64_t at : {199, 130, 64, 63, 0}) {
    x[at] = at % 2 == 0 ? Bf16{0x7fc0} : Bf16{0xff80};
    EXPECT_EQ(FirstNonFinite(200, x.data()), at);
    EXPECT_EQ(FirstNonFinite(at, x.data()), -1);
  }
}

INSTANTIATE_FOR_EVERY_ISA(RmsNormTest);
INSTANTIATE_FOR_EVERY_ISA(SiluMulTest);
INSTANTIATE_FOR_EVERY_ISA(ApplyRopeTest);
INSTANTIATE_FOR_EVERY_ISA(Bf16RowTest);

}  // namespace
}  // namespace anchorage::kernels
