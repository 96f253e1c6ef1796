// Scoring, assignment and utilities over a vector type, shared by the instruction sets.
//
// All three are products of a few query rows or anchors with many positions. Positions stand in the
// lanes: 16 of them at a time are transposed into a panel [head_dim][16], and the other side is
// broadcast, six vectors at a time, so that twelve accumulators cover the latency of a fused
// multiply-add. What follows the product (softmax weight, argmax) is then plain vector code.
#pragma once

#include <algorithm>

#include "kernels/compact_cache.h"
#include "kernels/cpu/anchor_kernels.h"
#include "kernels/cpu/elementwise_loops.h"
#include "kernels/cpu/exp.h"

namespace anchorage::kernels {

template <typename L>
struct AnchorLoops {
  using V = typename L::V8;

  static constexpr int kPanel = 16;
  static constexpr int kRows = 6;  // broadcast vectors of one micro-kernel call

  struct alignas(64) Panel {
    float data[kAnchorMaxHeadDim * kPanel];
  };
  // Sixteen vectors as they lie in memory.
  struct alignas(64) Tile {
    float data[kPanel * kAnchorMaxHeadDim];
  };
  struct Sums {
    V of[kRows][2];
  };

  // tile[16][dim] -> panel[dim][16].
  static void Pack(int dim, const Tile& tile, float* panel) {
    for (int half = 0; half < kPanel; half += 8) {
      for (int d = 0; d < dim; d += 8) {
        V block[8];
        for (int i = 0; i < 8; ++i) block[i] = V::Load(tile.data + (half + i) * dim + d);
        L::Transpose(block);
        for (int i = 0; i < 8; ++i) block[i].Store(panel + (d + i) * kPanel + half);
      }
    }
  }

  static void ZeroRows(int first, int dim, Tile& tile) {
    std::fill(tile.data + first * dim, tile.data + kPanel * dim, 0.0f);
  }

  // sums[r] = rows[r] . (each of the panel's positions), one chain over d.
  static Sums Dots(int dim, const float* const (&rows)[kRows], const float* panel) {
    Sums sums;
    for (auto& row : sums.of) row[0] = row[1] = V::Zero();
    for (int d = 0; d < dim; ++d) {
      const V low = V::Load(panel + d * kPanel);
      const V high = V::Load(panel + d * kPanel + 8);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const V x = V::Set(rows[r][d]);
        sums.of[r][0] = MulAdd(x, low, sums.of[r][0]);
        sums.of[r][1] = MulAdd(x, high, sums.of[r][1]);
      }
    }
    return sums;
  }

  // sums[r] = |rows[r] - (each of the panel's positions)|^2.
  static Sums SquaredDistances(int dim, const float* const (&rows)[kRows], const float* panel) {
    Sums sums;
    for (auto& row : sums.of) row[0] = row[1] = V::Zero();
    for (int d = 0; d < dim; ++d) {
      const V low = V::Load(panel + d * kPanel);
      const V high = V::Load(panel + d * kPanel + 8);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const V x = V::Set(rows[r][d]);
        const V a = low - x;
        const V b = high - x;
        sums.of[r][0] = MulAdd(a, a, sums.of[r][0]);
        sums.of[r][1] = MulAdd(b, b, sums.of[r][1]);
      }
    }
    return sums;
  }

  // |rows| up to kRows from `first`; the missing ones repeat `first` and are not used.
  static int RowPointers(const ObservedHead& rows, const float* base, int first,
                         const float* (&pointers)[kRows]) {
    const int count = std::min(kRows, rows.num_rows - first);
    for (int r = 0; r < kRows; ++r) {
      pointers[r] = base + rows.Vector(first + (r < count ? r : 0)) * rows.head_dim;
    }
    return count;
  }

  static float ScoreScale(int head_dim) { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

  static void RotateRow(int dim, const RopeRows& rope, int row, float* x) {
    ElementwiseLoops<V>::RotateHead(dim / 2, rope.cos + int64_t{row} * (dim / 2),
                                    rope.sin + int64_t{row} * (dim / 2), x);
  }

  // Keys first .. first + 15 of the block, rotated to their positions.
  static void PackKeys(int dim, int first, int count, const Bf16* k, const RopeRows& rope,
                       float* panel) {
    Tile tile;
    const int used = std::min(kPanel, count - first);
    for (int i = 0; i < used; ++i) {
      float* row = tile.data + i * dim;
      ElementwiseLoops<V>::ToFloatRow(dim, k + int64_t{first + i} * dim, row);
      RotateRow(dim, rope, first + i, row);
    }
    ZeroRows(used, dim, tile);
    Pack(dim, tile, panel);
  }

  static void PackValues(int dim, int first, int count, const Bf16* v, float* panel) {
    Tile tile;
    const int used = std::min(kPanel, count - first);
    ElementwiseLoops<V>::ToFloatRow(int64_t{used} * dim, v + int64_t{first} * dim, tile.data);
    ZeroRows(used, dim, tile);
    Pack(dim, tile, panel);
  }

  // row = x_t - gamma_t anchor(t); returns |row|^2.
  static float ResidualRow(int dim, const AnchoredBlock& side, int t, float* row) {
    const Bf16* x = side.x + int64_t{t} * dim;
    const Bf16* anchor = side.anchors + int64_t{side.idx[t]} * dim;
    const V gamma = V::Set(side.gamma[t]);
    V norm = V::Zero();
    for (int d = 0; d < dim; d += 8) {
      const V r = NegMulAdd(gamma, V::LoadBf16(anchor + d), V::LoadBf16(x + d));
      norm = MulAdd(r, r, norm);
      r.Store(row + d);
    }
    return norm.Sum();
  }

  // Key residuals, rotated to their positions; energy[t] = |r_t|^2.
  static void PackKeyResiduals(int dim, int first, int count, const AnchoredBlock& key,
                               const RopeRows& rope, float* energy, float* panel) {
    Tile tile;
    const int used = std::min(kPanel, count - first);
    for (int i = 0; i < used; ++i) {
      float* row = tile.data + i * dim;
      energy[first + i] = ResidualRow(dim, key, first + i, row);
      RotateRow(dim, rope, first + i, row);
    }
    ZeroRows(used, dim, tile);
    Pack(dim, tile, panel);
  }

  static void CopyOut(int count, const V (&lanes)[2], float* out) {
    float all[kPanel];
    lanes[0].Store(all);
    lanes[1].Store(all + 8);
    std::copy(all, all + count, out);
  }

  static void ScoreBlock(const ObservedHead& rows, int count, const Bf16* k, const RopeRows& rope,
                         float* scores) {
    const int dim = rows.head_dim;
    const V scale = V::Set(ScoreScale(dim));
    const V mean = V::Set(1.0f / static_cast<float>(rows.num_rows));
    Panel keys;
    for (int first = 0; first < count; first += kPanel) {
      PackKeys(dim, first, count, k, rope, keys.data);
      V total[2] = {V::Zero(), V::Zero()};
      for (int row = 0; row < rows.num_rows; row += kRows) {
        const float* q[kRows];
        const int used = RowPointers(rows, rows.q, row, q);
        const Sums scores_of = Dots(dim, q, keys.data);
        for (int r = 0; r < used; ++r) {
          const V lse = V::Set(rows.lse[rows.Vector(row + r)]);
          for (int half = 0; half < 2; ++half) {
            total[half] = total[half] + Exp(scores_of.of[r][half] * scale - lse);
          }
        }
      }
      for (V& lanes : total) lanes = lanes * mean;
      CopyOut(std::min(kPanel, count - first), total, scores + first);
    }
  }

  static void UtilityBlock(const ObservedHead& rows, int count, const AnchoredBlock& key,
                           const AnchoredBlock& value, const RopeRows& rope,
                           const ResidualWorth& key_worth, const ResidualWorth& value_worth) {
    const int dim = rows.head_dim;
    const V scale = V::Set(ScoreScale(dim));
    const V mean = V::Set(1.0f / static_cast<float>(rows.num_rows));
    Panel keys;
    Panel residuals;
    Panel values;
    for (int first = 0; first < count; first += kPanel) {
      PackKeys(dim, first, count, key.x, rope, keys.data);
      PackKeyResiduals(dim, first, count, key, rope, key_worth.energy, residuals.data);
      PackValues(dim, first, count, value.x, values.data);
      V total_key[2] = {V::Zero(), V::Zero()};
      V total_weight[2] = {V::Zero(), V::Zero()};
      for (int row = 0; row < rows.num_rows; row += kRows) {
        const float* q[kRows];
        const float* y[kRows];
        const int used = RowPointers(rows, rows.q, row, q);
        RowPointers(rows, rows.out, row, y);
        Sums weights = Dots(dim, q, keys.data);
        for (int r = 0; r < used; ++r) {
          const V lse = V::Set(rows.lse[rows.Vector(row + r)]);
          for (V& lanes : weights.of[r]) {
            const V alpha = Exp(lanes * scale - lse);
            lanes = alpha * alpha;
          }
        }
        const Sums shifts = Dots(dim, q, residuals.data);
        const Sums distances = SquaredDistances(dim, y, values.data);
        for (int r = 0; r < used; ++r) {
          for (int half = 0; half < 2; ++half) {
            // The 1/D of eq. 6 is the square of the score's scale.
            const V shift = shifts.of[r][half] * scale;
            const V weight = weights.of[r][half];
            total_weight[half] = total_weight[half] + weight;
            total_key[half] =
                MulAdd(weight * (shift * shift), distances.of[r][half], total_key[half]);
          }
        }
      }
      const int used = std::min(kPanel, count - first);
      for (int half = 0; half < 2; ++half) {
        total_key[half] = total_key[half] * mean;
        total_weight[half] = total_weight[half] * mean;
      }
      CopyOut(used, total_key, key_worth.utility + first);
      CopyOut(used, total_weight, value_worth.utility + first);
      float row[kAnchorMaxHeadDim];
      for (int t = first; t < first + used; ++t) {
        value_worth.energy[t] = ResidualRow(dim, value, t, row);
        value_worth.utility[t] *= value_worth.energy[t];
      }
    }
  }

  // Up to kRows anchors from `first`, each divided by its norm; zero where there is none.
  static void UnitAnchors(int dim, int num_anchors, int first, const Bf16* anchors, float* units) {
    for (int r = 0; r < kRows; ++r, units += dim) {
      float inverse = 0.0f;
      if (first + r < num_anchors) inverse = InverseNorm(anchors + r * dim, dim);
      if (inverse == 0.0f) {
        std::fill(units, units + dim, 0.0f);
        continue;
      }
      const V scale = V::Set(inverse);
      for (int d = 0; d < dim; d += 8) {
        (V::LoadBf16(anchors + r * dim + d) * scale).Store(units + d);
      }
    }
  }

  static void AssignBlock(int count, int dim, int num_anchors, const Bf16* x, const Bf16* anchors,
                          uint16_t* idx, float* proj) {
    constexpr int kPanels = kAnchorBlock / kPanel;
    Panel panels[kPanels];
    const int num_panels = (count + kPanel - 1) / kPanel;
    for (int p = 0; p < num_panels; ++p) PackValues(dim, p * kPanel, count, x, panels[p].data);

    // Per position: the best |projection| so far, that projection, and its anchor as a float.
    // A first anchor always wins against -1; later ones only when strictly better.
    alignas(32) float best[kAnchorBlock];
    alignas(32) float best_proj[kAnchorBlock];
    alignas(32) float best_anchor[kAnchorBlock];
    std::fill(best, best + kAnchorBlock, -1.0f);
    alignas(64) float units[kRows * kAnchorMaxHeadDim];
    const float* rows[kRows];
    for (int r = 0; r < kRows; ++r) rows[r] = units + r * dim;
    for (int first = 0; first < num_anchors; first += kRows) {
      UnitAnchors(dim, num_anchors, first, anchors + int64_t{first} * dim, units);
      for (int p = 0; p < num_panels; ++p) {
        const Sums sums = Dots(dim, rows, panels[p].data);
        for (int half = 0; half < 2; ++half) {
          const int at = p * kPanel + half * 8;
          V leader = V::Load(best + at);
          V leader_proj = V::Load(best_proj + at);
          V leader_anchor = V::Load(best_anchor + at);
          for (int r = 0; r < kRows; ++r) {
            const V candidate = sums.of[r][half];
            const V size = L::Abs(candidate);
            const V anchor = V::Set(static_cast<float>(first + r));
            leader_proj = L::SelectGreater(size, leader, candidate, leader_proj);
            leader_anchor = L::SelectGreater(size, leader, anchor, leader_anchor);
            leader = Max(size, leader);
          }
          leader.Store(best + at);
          leader_proj.Store(best_proj + at);
          leader_anchor.Store(best_anchor + at);
        }
      }
    }
    for (int i = 0; i < count; ++i) {
      idx[i] = static_cast<uint16_t>(best_anchor[i]);
      proj[i] = best_proj[i];
    }
  }

  static constexpr AnchorKernels Kernels() { return {AssignBlock, ScoreBlock, UtilityBlock}; }
};

}  // namespace anchorage::kernels
