// The micro-kernel of every product with many rows: up to 6 rows times one panel of 16 outputs,
// 12 accumulators that stay in registers. Each output is one chain of multiply-adds in ascending
// order of k, whatever the number of rows, so cutting k (store, reload) or rows changes no bit.
#pragma once

#include <cstring>

#include "kernels/cpu/matmul_kernels.h"

namespace anchorage::kernels {

template <typename V>
struct GemmTile {
  static constexpr int kRows = 6;

  // c [rows, 16] (+)= a [rows, k] panel [k, 16]; 1 <= rows <= kRows.
  static void Multiply(int rows, int64_t k, const float* a, int64_t a_stride, const float* panel,
                       float* c, int64_t c_stride, bool accumulate) {
    switch (rows) {
      case 1:
        return MultiplyRows<1>(k, a, a_stride, panel, c, c_stride, accumulate);
      case 2:
        return MultiplyRows<2>(k, a, a_stride, panel, c, c_stride, accumulate);
      case 3:
        return MultiplyRows<3>(k, a, a_stride, panel, c, c_stride, accumulate);
      case 4:
        return MultiplyRows<4>(k, a, a_stride, panel, c, c_stride, accumulate);
      case 5:
        return MultiplyRows<5>(k, a, a_stride, panel, c, c_stride, accumulate);
      default:
        return MultiplyRows<6>(k, a, a_stride, panel, c, c_stride, accumulate);
    }
  }

  // The same for the first `outputs` columns of c alone.
  static void MultiplyNarrow(int rows, int outputs, int64_t k, const float* a, int64_t a_stride,
                             const float* panel, float* c, int64_t c_stride, bool accumulate) {
    float whole[kRows * kPanelOutputs] = {};
    for (int row = 0; accumulate && row < rows; ++row) {
      std::memcpy(whole + row * kPanelOutputs, c + row * c_stride, outputs * sizeof(float));
    }
    Multiply(rows, k, a, a_stride, panel, whole, kPanelOutputs, accumulate);
    for (int row = 0; row < rows; ++row) {
      std::memcpy(c + row * c_stride, whole + row * kPanelOutputs, outputs * sizeof(float));
    }
  }

 private:
  template <int R>
  static void MultiplyRows(int64_t k, const float* a, int64_t a_stride, const float* panel,
                           float* c, int64_t c_stride, bool accumulate) {
    V left[R];
    V right[R];
#pragma GCC unroll 6
    for (int row = 0; row < R; ++row) {
      left[row] = accumulate ? V::Load(c + row * c_stride) : V::Zero();
      right[row] = accumulate ? V::Load(c + row * c_stride + 8) : V::Zero();
    }
    for (int64_t i = 0; i < k; ++i) {
      const V b0 = V::Load(panel + i * kPanelOutputs);
      const V b1 = V::Load(panel + i * kPanelOutputs + 8);
#pragma GCC unroll 6
      for (int row = 0; row < R; ++row) {
        const V value = V::Set(a[row * a_stride + i]);
        left[row] = MulAdd(value, b0, left[row]);
        right[row] = MulAdd(value, b1, right[row]);
      }
    }
#pragma GCC unroll 6
    for (int row = 0; row < R; ++row) {
      left[row].Store(c + row * c_stride);
      right[row].Store(c + row * c_stride + 8);
    }
  }
};

}  // namespace anchorage::kernels
