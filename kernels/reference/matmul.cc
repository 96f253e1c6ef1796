#include "kernels/reference/matmul.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace anchorage::kernels::reference {
namespace {

double Half(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

std::vector<double> UnpackAll(const WeightView& weights) {
  std::vector<double> values(weights.rows * weights.cols);
  for (int64_t row = 0; row < weights.rows; ++row) {
    for (int64_t col = 0; col < weights.cols; ++col) {
      values[row * weights.cols + col] = Weight(weights, row, col);
    }
  }
  return values;
}

template <typename Term>
void SumProducts(int64_t m, const float* x, int64_t x_stride, const WeightView& weights,
                 double* out, const Term& term) {
  const std::vector<double> w = UnpackAll(weights);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t o = 0; o < weights.rows; ++o) {
      double sum = 0;
      for (int64_t k = 0; k < weights.cols; ++k) {
        sum += term(double{x[i * x_stride + k]} * w[o * weights.cols + k]);
      }
      out[i * weights.rows + o] = sum;
    }
  }
}

}  // namespace

double Weight(const WeightView& weights, int64_t row, int64_t col) {
  const std::byte* bytes = weights.data + row * WeightRowBytes(weights.type, weights.cols);
  switch (weights.type) {
    case WeightType::kF32: {
      float value;
      std::memcpy(&value, bytes + 4 * col, sizeof(value));
      return value;
    }
    case WeightType::kF16:
      return Half(bytes + 2 * col);
    case WeightType::kQ4_1: {
      const std::byte* block = bytes + col / 32 * 20;
      const int j = static_cast<int>(col % 32);
      const int pair = static_cast<int>(block[4 + j % 16]);
      return Half(block) * (j < 16 ? pair & 15 : pair >> 4) + Half(block + 2);
    }
    case WeightType::kQ8_0: {
      const std::byte* block = bytes + col / 32 * 34;
      return Half(block) * static_cast<int8_t>(block[2 + col % 32]);
    }
  }
  return 0;
}

void Matmul(int64_t m, const float* x, int64_t x_stride, const WeightView& weights, double* out) {
  SumProducts(m, x, x_stride, weights, out, [](double product) { return product; });
}

void MatmulMagnitude(int64_t m, const float* x, int64_t x_stride, const WeightView& weights,
                     double* out) {
  SumProducts(m, x, x_stride, weights, out, [](double product) { return std::abs(product); });
}

}  // namespace anchorage::kernels::reference
