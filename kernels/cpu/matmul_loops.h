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

  // A quantised block as four vectors, in order.
  struct Q4_1 {
    static constexpr int kBytes = 20;
    static void Load(const std::byte* block, V (&w)[4]) {
      V d;
      V m;
      V::SetF16Pair(block, d, m);
      V::LoadNibbles(block + 4, w[0], w[2]);
      V::LoadNibbles(block + 12, w[1], w[3]);
      for (V& four : w) four = MulAdd(d, four, m);
    }
  };
  struct Q8_0 {
    static constexpr int kBytes = 34;
    static void Load(const std::byte* block, V (&w)[4]) {
      const V d = V::SetF16(block);
      for (int i = 0; i < 4; ++i) w[i] = d * V::LoadI8(block + 2 + 8 * i);
    }
  };

  // Asks for the weights that come a while later; past the end this does nothing.
  static void Prefetch(const std::byte* block) { __builtin_prefetch(block + 2048); }

  template <typename Block>
  static void UnpackBlocks(int64_t count, const std::byte* row, float* out) {
    for (int64_t i = 0; i < count; i += kBlock, row += Block::kBytes) {
      Prefetch(row);
      V w[4];
      Block::Load(row, w);
      for (int j = 0; j < 4; ++j) w[j].Store(out + i + 8 * j);
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
        return UnpackBlocks<Q4_1>(count, row, out);
      case WeightType::kQ8_0:
        return UnpackBlocks<Q8_0>(count, row, out);
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

  // Decode products. An output is eight chains of multiply-adds, one per lane, ascending in k and
  // summed in one fixed order. There are two ways to walk through them with the same bits:
  //   1-4 input rows         quantised blocks are unpacked in registers and used at once;
  //   more, or plain floats  eight rows of weights are unpacked a slice at a time into the
  //                          first-level cache, then each input row takes its dot products.

  template <typename Block, int R, int M>
  static void DotBlocks(const float* x, const WeightView& weights, int64_t first, float* out,
                        bool accumulate) {
    const int64_t cols = weights.cols;
    const int64_t row_bytes = cols / kBlock * Block::kBytes;
    const std::byte* block = weights.data + first * row_bytes;
    V sums[R][M];
#pragma GCC unroll 8
    for (int i = 0; i < R * M; ++i) sums[i / M][i % M] = V::Zero();
    for (int64_t col = 0; col < cols; col += kBlock, block += Block::kBytes) {
#pragma GCC unroll 4
      for (int output = 0; output < R; ++output) {
        V w[4];
        Prefetch(block + output * row_bytes);
        Block::Load(block + output * row_bytes, w);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 4
          for (int row = 0; row < M; ++row) {
            const V value = V::Load(x + row * cols + col + 8 * j);
            sums[output][row] = MulAdd(w[j], value, sums[output][row]);
          }
        }
      }
    }
    for (int output = 0; output < R; ++output) {
      for (int row = 0; row < M; ++row) {
        const float sum = sums[output][row].Sum();
        float& result = out[row * weights.rows + first + output];
        result = accumulate ? result + sum : sum;
      }
    }
  }

  template <typename Block, int R, int M>
  static void MatmulBlockRows(const float* x, const WeightView& weights, int64_t first,
                              int64_t last, float* out, bool accumulate) {
    for (; first + R <= last; first += R) {
      DotBlocks<Block, R, M>(x, weights, first, out, accumulate);
    }
    for (; first < last; ++first) DotBlocks<Block, 1, M>(x, weights, first, out, accumulate);
  }

  static constexpr int kMaxBlockRows = 4;

  // 1 <= m <= kMaxBlockRows.
  template <typename Block>
  static void MatmulBlocks(int64_t m, const float* x, const WeightView& weights, int64_t first,
                           int64_t last, float* out, bool accumulate) {
    switch (m) {
      case 1:
        return MatmulBlockRows<Block, 4, 1>(x, weights, first, last, out, accumulate);
      case 2:
        return MatmulBlockRows<Block, 4, 2>(x, weights, first, last, out, accumulate);
      case 3:
        return MatmulBlockRows<Block, 2, 3>(x, weights, first, last, out, accumulate);
      default:
        return MatmulBlockRows<Block, 2, 4>(x, weights, first, last, out, accumulate);
    }
  }

  static constexpr int kDotOutputs = 8;
  static constexpr int kMaxRows = 16;       // per pass over the weights
  static constexpr int64_t kDotCols = 768;  // a multiple of kBlock

  // Lanes of the sums of each (output, row) while the slices pass by.
  struct DotState {
    float lanes[kDotOutputs][kMaxRows][8];
  };

  // Adds `count` columns of R outputs and M input rows; count is a multiple of 8. R M independent
  // chains: enough to hide the latency of a multiply-add, few enough for the registers.
  template <int R, int M>
  static void AddDots(int64_t count, const float* weights, const float* x, int64_t x_stride,
                      int first_output, int first_row, DotState& state) {
    V sums[R][M];
#pragma GCC unroll 8
    for (int output = 0; output < R; ++output) {
#pragma GCC unroll 3
      for (int row = 0; row < M; ++row) {
        sums[output][row] = V::Load(state.lanes[first_output + output][first_row + row]);
      }
    }
    for (int64_t i = 0; i < count; i += 8) {
      V values[M];
#pragma GCC unroll 3
      for (int row = 0; row < M; ++row) values[row] = V::Load(x + row * x_stride + i);
#pragma GCC unroll 8
      for (int output = 0; output < R; ++output) {
        const V weight = V::Load(weights + output * kDotCols + i);
#pragma GCC unroll 3
        for (int row = 0; row < M; ++row) {
          sums[output][row] = MulAdd(weight, values[row], sums[output][row]);
        }
      }
    }
#pragma GCC unroll 8
    for (int output = 0; output < R; ++output) {
#pragma GCC unroll 3
      for (int row = 0; row < M; ++row) {
        sums[output][row].Store(state.lanes[first_output + output][first_row + row]);
      }
    }
  }

  // Adds one slice of all outputs for input rows [row, row + M).
  template <int R, int M>
  static void AddRows(int64_t count, const float* weights, int64_t row, const float* x,
                      int64_t x_stride, DotState& state) {
    for (int output = 0; output < kDotOutputs; output += R) {
      AddDots<R, M>(count, weights + output * kDotCols, x + row * x_stride, x_stride, output,
                    static_cast<int>(row), state);
    }
  }

  // Adds one slice for all m rows.
  static void AddSlice(int64_t count, const float* weights, int64_t m, const float* x,
                       int64_t x_stride, DotState& state) {
    int64_t row = 0;
    for (; row + 3 <= m; row += 3) AddRows<4, 3>(count, weights, row, x, x_stride, state);
    if (m - row == 2) AddRows<4, 2>(count, weights, row, x, x_stride, state);
    if (m - row == 1) AddRows<8, 1>(count, weights, row, x, x_stride, state);
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

  static void MatmulSlices(int64_t m, const float* x, const WeightView& weights, int64_t first,
                           int64_t last, float* out, bool accumulate) {
    for (int64_t output = first; output < last; output += kDotOutputs) {
      DotGroup(m, x, weights, output,
               static_cast<int>(std::min<int64_t>(kDotOutputs, last - output)), out, accumulate);
    }
  }

  // At most kMaxRows rows: one pass over the weights.
  static void MatmulPass(int64_t m, const float* x, const WeightView& weights, int64_t first,
                         int64_t last, float* out, bool accumulate) {
    if (weights.type == WeightType::kQ4_1 && m <= kMaxBlockRows) {
      MatmulBlocks<Q4_1>(m, x, weights, first, last, out, accumulate);
    } else if (weights.type == WeightType::kQ8_0 && m <= kMaxBlockRows) {
      MatmulBlocks<Q8_0>(m, x, weights, first, last, out, accumulate);
    } else {
      MatmulSlices(m, x, weights, first, last, out, accumulate);
    }
  }

  static void Matmul(int64_t m, const float* x, const WeightView& weights, int64_t first,
                     int64_t last, float* out, bool accumulate) {
    for (int64_t row = 0; row < m; row += kMaxRows) {
      MatmulPass(std::min<int64_t>(kMaxRows, m - row), x + row * weights.cols, weights, first, last,
                 out + row * weights.rows, accumulate);
    }
  }

  static constexpr MatmulKernels Kernels() { return {Unpack, PackPanel, Gemm, Matmul}; }
};

}  // namespace anchorage::kernels
