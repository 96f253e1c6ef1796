// Unpacking and products over a vector type V, shared by the instruction sets.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/matmul_kernels.h"

namespace anchorage::kernels {

template <typename V>
struct MatmulLoops {
  static constexpr int kBlock = 32;  // weights of one quantised block

  static void UnpackQ4_1(int64_t count, const std::byte* row, float* out) {
    for (int64_t i = 0; i < count; i += kBlock, row += 20) {
      const V d = V::SetF16(row);
      const V m = V::SetF16(row + 2);
      for (int half = 0; half < 2; ++half) {
        V low;
        V high;
        V::LoadNibbles(row + 4 + 8 * half, low, high);
        MulAdd(d, low, m).Store(out + i + 8 * half);
        MulAdd(d, high, m).Store(out + i + 16 + 8 * half);
      }
    }
  }

  static void UnpackQ8_0(int64_t count, const std::byte* row, float* out) {
    for (int64_t i = 0; i < count; i += kBlock, row += 34) {
      const V d = V::SetF16(row);
      for (int j = 0; j < kBlock; j += 8) (d * V::LoadI8(row + 2 + j)).Store(out + i + j);
    }
  }

  static void UnpackF16(int64_t count, const std::byte* row, float* out) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) V::LoadF16(row + 2 * i).Store(out + i);
    for (; i < count; ++i) {
      float eight[8];
      V::SetF16(row + 2 * i).Store(eight);
      out[i] = eight[0];
    }
  }

  static void Unpack(WeightType type, int64_t count, const std::byte* row, float* out) {
    switch (type) {
      case WeightType::kF32:
        std::memcpy(out, row, count * sizeof(float));
        return;
      case WeightType::kF16:
        return UnpackF16(count, row, out);
      case WeightType::kQ4_1:
        return UnpackQ4_1(count, row, out);
      case WeightType::kQ8_0:
        return UnpackQ8_0(count, row, out);
    }
  }

  static void PackPanel(const WeightView& weights, int64_t first, float* panel) {
    constexpr int64_t kCols = 64;
    float rows[kPanelOutputs][kCols] = {};
    const int64_t row_bytes = WeightRowBytes(weights.type, weights.cols);
    const int64_t num_rows = std::min<int64_t>(kPanelOutputs, weights.rows - first);
    for (int64_t col = 0; col < weights.cols; col += kCols) {
      const int64_t count = std::min(kCols, weights.cols - col);
      for (int64_t row = 0; row < num_rows; ++row) {
        Unpack(weights.type, count,
               weights.data + (first + row) * row_bytes + WeightRowBytes(weights.type, col),
               rows[row]);
      }
      for (int64_t j = 0; j < count; ++j) {
        for (int row = 0; row < kPanelOutputs; ++row) {
          panel[(col + j) * kPanelOutputs + row] = rows[row][j];
        }
      }
    }
  }

  // Columns at a time, so that a slice of a panel and six rows of `a` stay in the first-level
  // cache.
  static constexpr int64_t kGemmCols = 384;

  static void Gemm(int64_t m, int64_t n, int64_t cols, const float* a, int64_t a_stride,
                   const float* panels, float* c, int64_t c_stride, bool accumulate) {
    for (int64_t col = 0; col < cols; col += kGemmCols) {
      const int64_t k = std::min(kGemmCols, cols - col);
      for (int64_t output = 0; output < n; output += kPanelOutputs) {
        const float* panel = panels + output * cols + col * kPanelOutputs;
        const int outputs = static_cast<int>(std::min<int64_t>(kPanelOutputs, n - output));
        for (int64_t row = 0; row < m; row += GemmTile<V>::kRows) {
          const int rows = static_cast<int>(std::min<int64_t>(GemmTile<V>::kRows, m - row));
          const float* a_tile = a + row * a_stride + col;
          float* c_tile = c + row * c_stride + output;
          if (outputs == kPanelOutputs) {
            GemmTile<V>::Multiply(rows, k, a_tile, a_stride, panel, c_tile, c_stride,
                                  accumulate || col > 0);
          } else {
            GemmTile<V>::MultiplyNarrow(rows, outputs, k, a_tile, a_stride, panel, c_tile, c_stride,
                                        accumulate || col > 0);
          }
        }
      }
    }
  }

  // Decode products. Four rows of weights are unpacked a slice at a time into the first-level
  // cache; then each input row takes its dot products with them. An output is eight chains, one
  // per lane, ascending in k and summed in one fixed order: m changes nothing.
  static constexpr int kDotOutputs = 4;
  static constexpr int kDotRows = 3;        // input rows at once: 12 accumulators
  static constexpr int kMaxRows = 16;       // per pass over the weights
  static constexpr int64_t kDotCols = 256;  // a multiple of kBlock

  // Lanes of the sums of each (output, row) while the slices pass by.
  struct DotState {
    float lanes[kDotOutputs][kMaxRows][8];
  };

  // Adds `count` columns of R outputs and M rows. count is a multiple of 8.
  template <int R, int M>
  static void AddDots(int64_t count, const float* weights, const float* x, int64_t x_stride,
                      int first_row, DotState& state) {
    V sums[R][M];
#pragma GCC unroll 4
    for (int output = 0; output < R; ++output) {
#pragma GCC unroll 3
      for (int row = 0; row < M; ++row) {
        sums[output][row] = V::Load(state.lanes[output][first_row + row]);
      }
    }
    for (int64_t i = 0; i < count; i += 8) {
      V values[M];
#pragma GCC unroll 3
      for (int row = 0; row < M; ++row) values[row] = V::Load(x + row * x_stride + i);
#pragma GCC unroll 4
      for (int output = 0; output < R; ++output) {
        const V weight = V::Load(weights + output * kDotCols + i);
#pragma GCC unroll 3
        for (int row = 0; row < M; ++row) {
          sums[output][row] = MulAdd(weight, values[row], sums[output][row]);
        }
      }
    }
#pragma GCC unroll 4
    for (int output = 0; output < R; ++output) {
#pragma GCC unroll 3
      for (int row = 0; row < M; ++row) {
        sums[output][row].Store(state.lanes[output][first_row + row]);
      }
    }
  }

  // Adds one slice for all m rows.
  static void AddSlice(int64_t count, const float* weights, int64_t m, const float* x,
                       int64_t x_stride, DotState& state) {
    int64_t row = 0;
    for (; row + kDotRows <= m; row += kDotRows) {
      AddDots<kDotOutputs, kDotRows>(count, weights, x + row * x_stride, x_stride,
                                     static_cast<int>(row), state);
    }
    if (m - row == 2) {
      AddDots<kDotOutputs, 2>(count, weights, x + row * x_stride, x_stride, static_cast<int>(row),
                              state);
    } else if (m - row == 1) {
      AddDots<kDotOutputs, 1>(count, weights, x + row * x_stride, x_stride, static_cast<int>(row),
                              state);
    }
  }

  // A group of at most kDotOutputs outputs and kMaxRows rows, all columns.
  static void DotGroup(int64_t m, const float* x, const WeightView& weights, int64_t first,
                       int num_outputs, float* out, bool accumulate) {
    const int64_t cols = weights.cols;
    const int64_t row_bytes = WeightRowBytes(weights.type, cols);
    alignas(64) float slice[kDotOutputs * kDotCols] = {};
    alignas(64) DotState state;
    std::memset(&state, 0, sizeof(state));

    for (int64_t col = 0; col < cols; col += kDotCols) {
      const int64_t count = std::min(kDotCols, cols - col);
      for (int output = 0; output < num_outputs; ++output) {
        Unpack(weights.type, count,
               weights.data + (first + output) * row_bytes + WeightRowBytes(weights.type, col),
               slice + output * kDotCols);
      }
      const int64_t whole = count / 8 * 8;
      AddSlice(whole, slice, m, x + col, cols, state);
      if (whole < count) AddTail(count - whole, whole, slice, m, x + col + whole, cols, state);
    }
    for (int output = 0; output < num_outputs; ++output) {
      for (int64_t row = 0; row < m; ++row) {
        const float sum = V::Load(state.lanes[output][row]).Sum();
        float& result = out[row * weights.rows + first + output];
        result = accumulate ? result + sum : sum;
      }
    }
  }

  // The last count < 8 columns, padded with zeros.
  static void AddTail(int64_t count, int64_t offset, const float* slice, int64_t m, const float* x,
                      int64_t x_stride, DotState& state) {
    float weights[kDotOutputs * kDotCols] = {};
    float values[kMaxRows][8] = {};
    for (int output = 0; output < kDotOutputs; ++output) {
      std::memcpy(weights + output * kDotCols, slice + output * kDotCols + offset,
                  count * sizeof(float));
    }
    for (int64_t row = 0; row < m; ++row) {
      std::memcpy(values[row], x + row * x_stride, count * sizeof(float));
    }
    AddSlice(8, weights, m, values[0], 8, state);
  }

  static void Matmul(int64_t m, const float* x, const WeightView& weights, int64_t first,
                     int64_t last, float* out, bool accumulate) {
    for (int64_t row = 0; row < m; row += kMaxRows) {
      const int64_t rows = std::min<int64_t>(kMaxRows, m - row);
      for (int64_t output = first; output < last; output += kDotOutputs) {
        DotGroup(rows, x + row * weights.cols, weights, output,
                 static_cast<int>(std::min<int64_t>(kDotOutputs, last - output)),
                 out + row * weights.rows, accumulate);
      }
    }
  }

  static constexpr MatmulKernels Kernels() { return {Unpack, PackPanel, Gemm, Matmul}; }
};

}  // namespace anchorage::kernels
