#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/matmul.h"
#include "tests/kernels/kernel_testing.h"

namespace anchorage::kernels {
namespace {

constexpr WeightType kTypes[] = {WeightType::kF32, WeightType::kF16, WeightType::kQ4_1,
                                 WeightType::kQ8_0};
constexpr int64_t kManyRows = kSanitized ? 200 : 2000;

class WeightsTest : public IsaTest {};
class GemmTest : public IsaTest {};
class MatmulTest : public IsaTest {};

// Column counts that the type can have, odd ones where it has no block.
std::vector<int64_t> ColumnCounts(WeightType type) {
  if (type == WeightType::kQ4_1 || type == WeightType::kQ8_0) return {32, 96, 256, 288, 800};
  return {1, 3, 7, 8, 9, 63, 257, 385};
}

struct Packed {
  std::vector<float> data;
  PackedWeights weights;
};

Packed Pack(const WeightView& view, Stream& stream) {
  Packed packed;
  packed.data.assign(PackedWeightsSize(view.rows, view.cols), -1.0f);
  EXPECT_EQ(PackWeights(view, packed.data.data(), stream), Status::kOk);
  packed.weights = {view.rows, view.cols, packed.data.data()};
  return packed;
}

// A chain of n multiply-adds errs by at most n roundings of the sum of magnitudes (2 n where the
// product is rounded by itself), and a Q4_1 weight by one more.
double Tolerance(int64_t cols, double magnitude) {
  return (2.0 * static_cast<double>(cols) + 2) * kUnit * magnitude;
}

// x w^T by the reference, and the sums of magnitudes that its rounding is relative to.
struct Product {
  int64_t rows;
  int64_t cols;
  std::vector<double> values;
  std::vector<double> magnitudes;

  Product(int64_t m, const std::vector<float>& x, int64_t x_stride, const WeightView& weights)
      : rows(weights.rows), cols(weights.cols), values(m * rows), magnitudes(m * rows) {
    reference::Matmul(m, x.data(), x_stride, weights, values.data());
    reference::MatmulMagnitude(m, x.data(), x_stride, weights, magnitudes.data());
  }
};

// Checks out [m, rows] with row stride `stride` against `before` + the first m rows of `product`.
void ExpectProduct(int64_t m, const Product& product, const std::vector<float>& out, int64_t stride,
                   float before) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t o = 0; o < product.rows; ++o) {
      const int64_t at = i * product.rows + o;
      ASSERT_NEAR(out[i * stride + o], before + product.values[at],
                  Tolerance(product.cols, product.magnitudes[at] + std::abs(before)))
          << "m " << m << " rows " << product.rows << " cols " << product.cols << " at " << i << ","
          << o;
    }
  }
}

TEST_P(WeightsTest, UnpackTheHandComputedBlocks) {
  // Halves: 0x3800 = 0.5, 0xbc00 = -1, 0x3400 = 0.25.
  std::vector<std::byte> q4(20, std::byte{0});
  q4[1] = std::byte{0x38};
  q4[3] = std::byte{0xbc};
  q4[4] = std::byte{0xf2};   // value 0 has code 2, value 16 has code 15
  q4[19] = std::byte{0x10};  // value 31 has code 1
  std::vector<std::byte> q8(34, std::byte{0});
  q8[1] = std::byte{0x34};
  q8[2] = std::byte{0x80};   // -128
  q8[33] = std::byte{0x05};  // 5
  const int32_t row = 0;
  float out[32];
  ASSERT_EQ(GatherRows({WeightType::kQ4_1, 1, 32, q4.data()}, &row, 1, out), Status::kOk);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], -1.0f);
  EXPECT_EQ(out[16], 6.5f);
  EXPECT_EQ(out[31], -0.5f);
  ASSERT_EQ(GatherRows({WeightType::kQ8_0, 1, 32, q8.data()}, &row, 1, out), Status::kOk);
  EXPECT_EQ(out[0], -32.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[31], 1.25f);
}

TEST_P(WeightsTest, UnpackEveryHalf) {
  std::vector<uint16_t> halves;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7c00) != 0x7c00) halves.push_back(static_cast<uint16_t>(bits));
  }
  const WeightView weights = {WeightType::kF16, 1, static_cast<int64_t>(halves.size()),
                              reinterpret_cast<const std::byte*>(halves.data())};
  const int32_t row = 0;
  std::vector<float> out(halves.size());
  ASSERT_EQ(GatherRows(weights, &row, 1, out.data()), Status::kOk);
  for (size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(out[i], reference::Weight(weights, 0, static_cast<int64_t>(i))) << halves[i];
  }
}

TEST_P(WeightsTest, UnpackExactlyEverywhere) {
  Stream stream(2);
  for (const WeightType type : kTypes) {
    for (const int64_t cols : ColumnCounts(type)) {
      const TestWeights weights = RandomWeights(type, 19, cols, 11);
      const int32_t ids[4] = {18, 0, 7, 7};
      std::vector<float> gathered(4 * cols);
      ASSERT_EQ(GatherRows(weights.view, ids, 4, gathered.data()), Status::kOk);
      const Packed packed = Pack(weights.view, stream);
      for (int64_t i = 0; i < 4; ++i) {
        for (int64_t col = 0; col < cols; ++col) {
          // One rounding to float of the exact value is all that may happen.
          const auto exact = static_cast<float>(reference::Weight(weights.view, ids[i], col));
          ASSERT_EQ(gathered[i * cols + col], exact);
          const int64_t panel = ids[i] / 16 * 16 * cols;
          ASSERT_EQ(packed.data[panel + col * 16 + ids[i] % 16], exact);
        }
      }
      for (int64_t col = 0; col < cols; ++col) {
        for (int64_t missing = 3; missing < 16; ++missing) {
          ASSERT_EQ(packed.data[16 * cols + col * 16 + missing], 0.0f);
        }
      }
    }
  }
}

TEST_P(WeightsTest, RejectShapesAndIdsThatDoNotFit) {
  Stream stream(1);
  const TestWeights weights = RandomWeights(WeightType::kQ8_0, 4, 32, 12);
  WeightView odd = weights.view;
  odd.cols = 31;
  std::vector<float> out(64);
  const int32_t beyond = 4;
  const int32_t negative = -1;
  EXPECT_EQ(GatherRows(weights.view, &beyond, 1, out.data()), Status::kInvalidShape);
  EXPECT_EQ(GatherRows(weights.view, &negative, 1, out.data()), Status::kInvalidShape);
  EXPECT_EQ(GatherRows(odd, &beyond, 0, out.data()), Status::kInvalidShape);
  EXPECT_EQ(GatherRows(weights.view, nullptr, 0, out.data()), Status::kOk);
  EXPECT_EQ(PackWeights(odd, out.data(), stream), Status::kInvalidShape);
  EXPECT_EQ(Matmul(1, out.data(), odd, out.data(), false, stream), Status::kInvalidShape);
  EXPECT_EQ(Matmul(-1, out.data(), weights.view, out.data(), false, stream), Status::kInvalidShape);
  EXPECT_EQ(Matmul(0, nullptr, weights.view, nullptr, false, stream), Status::kOk);
}

TEST_P(GemmTest, IsTheHandComputedCase) {
  // [1 2; 3 4] times the transpose of [5 6; 7 8].
  Stream stream(1);
  const float w[4] = {5, 6, 7, 8};
  const float a[4] = {1, 2, 3, 4};
  const Packed packed =
      Pack({WeightType::kF32, 2, 2, reinterpret_cast<const std::byte*>(w)}, stream);
  float c[4] = {};
  ASSERT_EQ(Gemm(2, a, 2, packed.weights, c, 2, false, stream), Status::kOk);
  EXPECT_EQ(std::vector<float>(c, c + 4), (std::vector<float>{17, 23, 39, 53}));
  ASSERT_EQ(Gemm(2, a, 2, packed.weights, c, 2, true, stream), Status::kOk);
  EXPECT_EQ(std::vector<float>(c, c + 4), (std::vector<float>{34, 46, 78, 106}));
}

TEST_P(GemmTest, AgreesWithTheReferenceOnOddSizesAndStrides) {
  Stream stream(2);
  for (const int64_t cols : {1, 3, 7, 64, 383, 384, 385, 800}) {
    for (const int64_t rows : {1, 7, 15, 16, 17, 130}) {
      const TestWeights weights = RandomWeights(WeightType::kF32, rows, cols, 13);
      const Packed packed = Pack(weights.view, stream);
      const int64_t a_stride = cols + 3;
      const int64_t c_stride = rows + 2;
      const std::vector<float> a = RandomFloats(13 * a_stride, 14);
      const Product product(13, a, a_stride, weights.view);
      for (const int64_t m : {1, 3, 5, 6, 7, 13}) {
        for (const bool accumulate : {false, true}) {
          std::vector<float> c(m * c_stride, 2.5f);
          ASSERT_EQ(
              Gemm(m, a.data(), a_stride, packed.weights, c.data(), c_stride, accumulate, stream),
              Status::kOk);
          ExpectProduct(m, product, c, c_stride, accumulate ? 2.5f : 0.0f);
          for (int64_t i = 0; i < m; ++i) {
            ASSERT_EQ(c[i * c_stride + rows], 2.5f) << "wrote past the row";
          }
        }
      }
    }
  }
}

TEST_P(GemmTest, GivesARowTheSameBitsInAnyCall) {
  const int64_t cols = 416;
  const int64_t rows = 83;
  Stream one(1);
  const TestWeights weights = RandomWeights(WeightType::kQ4_1, rows, cols, 15);
  const Packed packed = Pack(weights.view, one);
  const std::vector<float> a = RandomFloats(kManyRows * cols, 16);
  std::vector<float> expected(kManyRows * rows);
  for (int64_t row = 0; row < kManyRows; ++row) {
    ASSERT_EQ(
        Gemm(1, &a[row * cols], cols, packed.weights, &expected[row * rows], rows, false, one),
        Status::kOk);
  }
  for (const int threads : {1, 2, 3}) {
    Stream stream(threads);
    for (const int64_t m : {int64_t{1}, int64_t{3}, int64_t{64}, kManyRows}) {
      std::vector<float> c(m * rows);
      ASSERT_EQ(Gemm(m, a.data(), cols, packed.weights, c.data(), rows, false, stream),
                Status::kOk);
      EXPECT_TRUE(SameBits(c.data(), expected.data(), m * rows)) << threads << " " << m;
    }
    // The same rows in chunks that share no boundary with the tiles.
    std::vector<float> c(kManyRows * rows);
    for (int64_t row = 0; row < kManyRows; row += 37) {
      ASSERT_EQ(Gemm(std::min<int64_t>(37, kManyRows - row), &a[row * cols], cols, packed.weights,
                     &c[row * rows], rows, false, stream),
                Status::kOk);
    }
    EXPECT_TRUE(SameBits(c.data(), expected.data(), kManyRows * rows)) << threads;
  }
}

TEST_P(GemmTest, RejectsStridesShorterThanARow) {
  Stream stream(1);
  const TestWeights weights = RandomWeights(WeightType::kF32, 4, 8, 17);
  const Packed packed = Pack(weights.view, stream);
  std::vector<float> a(32);
  std::vector<float> c(32);
  EXPECT_EQ(Gemm(1, a.data(), 7, packed.weights, c.data(), 4, false, stream),
            Status::kInvalidShape);
  EXPECT_EQ(Gemm(1, a.data(), 8, packed.weights, c.data(), 3, false, stream),
            Status::kInvalidShape);
  EXPECT_EQ(Gemm(-1, a.data(), 8, packed.weights, c.data(), 4, false, stream),
            Status::kInvalidShape);
  EXPECT_EQ(Gemm(0, nullptr, 8, packed.weights, nullptr, 4, false, stream), Status::kOk);
}

TEST_P(MatmulTest, IsTheHandComputedCase) {
  // Two values count, 0.25 x (-128) and 0.25 x 5 of a Q8_0 row; the rest of x is zero.
  std::vector<std::byte> q8(34, std::byte{0});
  q8[1] = std::byte{0x34};
  q8[2] = std::byte{0x80};
  q8[33] = std::byte{0x05};
  float x[32] = {};
  x[0] = 2;
  x[31] = 4;
  Stream stream(1);
  float out = 1;
  const WeightView weights = {WeightType::kQ8_0, 1, 32, q8.data()};
  ASSERT_EQ(Matmul(1, x, weights, &out, false, stream), Status::kOk);
  EXPECT_EQ(out, -59.0f);
  ASSERT_EQ(Matmul(1, x, weights, &out, true, stream), Status::kOk);
  EXPECT_EQ(out, -118.0f);
}

TEST_P(MatmulTest, AgreesWithTheReferenceForEveryType) {
  Stream stream(2);
  for (const WeightType type : kTypes) {
    for (const int64_t cols : ColumnCounts(type)) {
      for (const int64_t rows : {1, 3, 4, 7, 130}) {
        const TestWeights weights = RandomWeights(type, rows, cols, 18);
        const std::vector<float> x = RandomFloats(17 * cols, 19);
        const Product product(17, x, cols, weights.view);
        for (const int64_t m : {1, 2, 3, 4, 7, 16, 17}) {
          for (const bool accumulate : {false, true}) {
            std::vector<float> out(m * rows, 2.5f);
            ASSERT_EQ(Matmul(m, x.data(), weights.view, out.data(), accumulate, stream),
                      Status::kOk);
            ExpectProduct(m, product, out, rows, accumulate ? 2.5f : 0.0f);
          }
        }
      }
    }
  }
}

TEST_P(MatmulTest, GivesARowTheSameBitsInAnyCall) {
  Stream one(1);
  for (const WeightType type : kTypes) {
    const int64_t cols = 288;
    const int64_t rows = 101;
    const TestWeights weights = RandomWeights(type, rows, cols, 20);
    const std::vector<float> x = RandomFloats(kManyRows * cols, 21);
    std::vector<float> expected(kManyRows * rows);
    for (int64_t row = 0; row < kManyRows; ++row) {
      ASSERT_EQ(Matmul(1, &x[row * cols], weights.view, &expected[row * rows], false, one),
                Status::kOk);
    }
    for (const int threads : {1, 2, 3}) {
      Stream stream(threads);
      for (const int64_t m : {1, 2, 3, 4, 5, 64, static_cast<int>(kManyRows)}) {
        std::vector<float> out(m * rows);
        ASSERT_EQ(Matmul(m, x.data(), weights.view, out.data(), false, stream), Status::kOk);
        EXPECT_TRUE(SameBits(out.data(), expected.data(), m * rows)) << threads << " " << m;
      }
    }
  }
}

INSTANTIATE_FOR_EVERY_ISA(WeightsTest);
INSTANTIATE_FOR_EVERY_ISA(GemmTest);
INSTANTIATE_FOR_EVERY_ISA(MatmulTest);

}  // namespace
}  // namespace anchorage::kernels
