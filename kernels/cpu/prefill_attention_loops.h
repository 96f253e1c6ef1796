// Causal attention of one block of queries over a vector type V, shared by the instruction sets.
//
// The rows of a block are (query position, q head of the group), positions outermost. Key tiles of
// 64 positions, aligned to absolute positions, pass in ascending order. For each tile: keys are
// rotated and packed, values packed; then six rows at a time take S = Q K^T, the online softmax
// (FlashAttention, arXiv:2205.14135, Algorithm 1) and O += P V, both products by the micro-kernel
// of the GEMM. A row's arithmetic is the same in whatever six it falls and wherever a call begins.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/exp.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/prefill_attention_kernels.h"

namespace anchorage::kernels {

template <typename V>
class PrefillAttentionLoops {
 public:
  static constexpr PrefillAttentionKernels Kernels() { return {ScratchFloats, Attend}; }

 private:
  static constexpr int kTileKeys = 64;
  static constexpr int kRows = GemmTile<V>::kRows;

  // head_dim in whole panels: the row length of O.
  static int PaddedDim(const PrefillAttentionShape& shape) {
    return (shape.head_dim + kPanelOutputs - 1) / kPanelOutputs * kPanelOutputs;
  }

  static int64_t MaxRows(const PrefillAttentionShape& shape) {
    return QueryBlockLen(shape) * (shape.num_q_heads / shape.num_kv_heads);
  }

  // Where the parts of one task lie in its scratch.
  struct Scratch {
    float* keys;     // [kTileKeys / 16, head_dim, 16] rotated
    float* values;   // [padded_dim / 16, kTileKeys, 16]
    float* scores;   // [kRows, kTileKeys]
    float* queries;  // [rows, head_dim] times 1 / sqrt(head_dim)
    float* sums;     // [rows, padded_dim] weighted values so far
    float* largest;  // [rows] score so far
    float* weight;   // [rows] sum of exp(score - largest) so far
    float* end;
  };

  static Scratch Divide(const PrefillAttentionShape& shape, float* base) {
    const int64_t rows = MaxRows(shape);
    Scratch s;
    s.keys = base;
    s.values = s.keys + int64_t{kTileKeys} * shape.head_dim;
    s.scores = s.values + int64_t{kTileKeys} * PaddedDim(shape);
    s.queries = s.scores + kRows * kTileKeys;
    s.sums = s.queries + rows * shape.head_dim;
    s.largest = s.sums + rows * PaddedDim(shape);
    s.weight = s.largest + rows;
    s.end = s.weight + rows;
    return s;
  }

  static int64_t ScratchFloats(const PrefillAttentionShape& shape) {
    float origin = 0;
    const int64_t floats = Divide(shape, &origin).end - &origin;
    return (floats + 15) / 16 * 16;
  }

  static void Attend(const PrefillAttentionShape& shape, const PrefillAttentionArrays& arrays,
                     int kv_head, int64_t first, int64_t last, float* scratch) {
    const int group = shape.num_q_heads / shape.num_kv_heads;
    const int64_t rows = (last - first) * group;
    const Scratch s = Divide(shape, scratch);
    LoadQueries(shape, arrays, kv_head, first, rows, s);

    const int64_t num_keys = shape.q_start + last;
    for (int64_t tile = 0; tile < num_keys; tile += kTileKeys) {
      const int keys = static_cast<int>(std::min<int64_t>(kTileKeys, num_keys - tile));
      PackKeys(shape, arrays, kv_head, tile, keys, s.keys);
      PackValues(shape, arrays, kv_head, tile, keys, s.values);
      for (int64_t row = 0; row < rows; row += kRows) {
        const int count = static_cast<int>(std::min<int64_t>(kRows, rows - row));
        const int64_t position = shape.q_start + first - tile;  // of row 0, from the tile's start
        // Keys of the tile that row i of the six may see, and the most that any of them may.
        int visible[kRows];
        for (int i = 0; i < count; ++i) {
          visible[i] =
              static_cast<int>(std::clamp<int64_t>(position + (row + i) / group + 1, 0, kTileKeys));
        }
        if (visible[count - 1] > 0) AttendTile(shape, s, row, count, visible);
      }
    }
    StoreRows(shape, arrays, kv_head, first, rows, s);
  }

  static void LoadQueries(const PrefillAttentionShape& shape, const PrefillAttentionArrays& arrays,
                          int kv_head, int64_t first, int64_t rows, const Scratch& s) {
    const int dim = shape.head_dim;
    const int group = shape.num_q_heads / shape.num_kv_heads;
    const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t head = int64_t{kv_head} * group + row % group;
      const float* q = arrays.q + ((first + row / group) * shape.num_q_heads + head) * dim;
      for (int i = 0; i < dim; ++i) s.queries[row * dim + i] = q[i] * scale;
    }
    std::fill(s.sums, s.sums + rows * PaddedDim(shape), 0.0f);
    std::fill(s.largest, s.largest + rows, -std::numeric_limits<float>::infinity());
    std::fill(s.weight, s.weight + rows, 0.0f);
  }

  static void PackKeys(const PrefillAttentionShape& shape, const PrefillAttentionArrays& arrays,
                       int kv_head, int64_t tile, int keys, float* packed) {
    const int dim = shape.head_dim;
    const int half = dim / 2;
    for (int key = 0; key < keys; ++key) {
      const int64_t position = tile + key;
      const Bf16* k = arrays.k + (kv_head * shape.kv_capacity + position) * dim;
      const float* cos = arrays.rope.cos + position * half;
      const float* sin = arrays.rope.sin + position * half;
      float* column = packed + key / kPanelOutputs * (kPanelOutputs * dim) + key % kPanelOutputs;
      for (int j = 0; j < half; ++j) {
        const float a = ToFloat(k[j]);
        const float b = ToFloat(k[half + j]);
        column[j * kPanelOutputs] = a * cos[j] - b * sin[j];
        column[(half + j) * kPanelOutputs] = b * cos[j] + a * sin[j];
      }
    }
  }

  static void PackValues(const PrefillAttentionShape& shape, const PrefillAttentionArrays& arrays,
                         int kv_head, int64_t tile, int keys, float* packed) {
    const int dim = shape.head_dim;
    const Bf16* v = arrays.v + (kv_head * shape.kv_capacity + tile) * dim;
    for (int i = 0; i < PaddedDim(shape); i += 8) {
      float* panel = packed + i / kPanelOutputs * (kPanelOutputs * kTileKeys) + i % kPanelOutputs;
      for (int key = 0; key < keys; ++key) {
        const V eight = i < dim ? V::LoadBf16(v + key * dim + i) : V::Zero();
        eight.Store(panel + key * kPanelOutputs);
      }
    }
  }

  // One key tile for `count` rows from `row` on; visible[] ascends.
  static void AttendTile(const PrefillAttentionShape& shape, const Scratch& s, int64_t row,
                         int count, const int* visible) {
    const int dim = shape.head_dim;
    const int padded_dim = PaddedDim(shape);
    const int most_visible = visible[count - 1];
    for (int panel = 0; panel * kPanelOutputs < most_visible; ++panel) {
      GemmTile<V>::Multiply(count, dim, s.queries + row * dim, dim,
                            s.keys + panel * (kPanelOutputs * dim),
                            s.scores + panel * kPanelOutputs, kTileKeys, false);
    }
    for (int i = 0; i < count; ++i) {
      Softmax(visible[i], s.scores + i * kTileKeys, s.largest[row + i], s.weight[row + i],
              padded_dim, s.sums + (row + i) * padded_dim);
    }
    for (int i = 0; i < padded_dim; i += kPanelOutputs) {
      GemmTile<V>::Multiply(count, most_visible, s.scores, kTileKeys, s.values + i * kTileKeys,
                            s.sums + row * padded_dim + i, padded_dim, true);
    }
  }

  // Turns a row of scores into weights relative to its largest score so far, and what the row has
  // gathered before to the same scale.
  static void Softmax(int visible, float* scores, float& largest, float& weight, int padded_dim,
                      float* sums) {
    if (visible == 0) {
      std::fill(scores, scores + kTileKeys, 0.0f);
      return;
    }
    std::fill(scores + visible, scores + kTileKeys, -std::numeric_limits<float>::infinity());
    V most = V::Load(scores);
    for (int i = 8; i < kTileKeys; i += 8) most = Max(most, V::Load(scores + i));
    const float new_largest = std::max(largest, most.Largest());
    if (new_largest > largest) {
      const V factor = Exp(V::Set(largest - new_largest));
      for (int i = 0; i < padded_dim; i += 8) (V::Load(sums + i) * factor).Store(sums + i);
      weight *= factor.First();
      largest = new_largest;
    }
    V total = V::Zero();
    const V shift = V::Set(largest);
    for (int i = 0; i < kTileKeys; i += 8) {
      const V p = Exp(V::Load(scores + i) - shift);
      p.Store(scores + i);
      total = total + p;
    }
    weight += total.Sum();
  }

  static void StoreRows(const PrefillAttentionShape& shape, const PrefillAttentionArrays& arrays,
                        int kv_head, int64_t first, int64_t rows, const Scratch& s) {
    const int dim = shape.head_dim;
    const int group = shape.num_q_heads / shape.num_kv_heads;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t index =
          (first + row / group) * shape.num_q_heads + int64_t{kv_head} * group + row % group;
      const V inverse = V::Set(1.0f / s.weight[row]);
      const float* sums = s.sums + row * PaddedDim(shape);
      for (int i = 0; i < dim; i += 8) {
        // Plus zero: a sum that has underflowed may be -0 or +0 by what the other five rows see.
        (V::Load(sums + i) * inverse + V::Zero()).Store(arrays.out + index * dim + i);
      }
      if (arrays.lse != nullptr) {
        arrays.lse[index] = s.largest[row] + std::log(s.weight[row]);
      }
    }
  }
};

}  // namespace anchorage::kernels
