// Decode attention over a vector type, shared by the instruction sets.
//
// Scores and weights of a tile stand as [token][row], four rows wide: what belongs to a token is
// one short vector, the softmax is plain vector code, and a value anchor's bin takes one
// multiply-add.
//
// Keys of the compact layout are rotated by the offset inside the tile alone. The rest of the angle
// is taken from the query, once per tile: q . R_t k = (R_{-t0} q) . R_{t - t0} k. So the cos and
// sin that the inner loop reads are the same 64 rows for every tile and stay in the first cache.
#pragma once

#include <bit>
#include <cstring>
#include <limits>

#include "kernels/cpu/decode_kernels.h"
#include "kernels/cpu/exp.h"

namespace anchorage::kernels {

template <typename L>
struct DecodeLoops {
  using V = typename L::V8;
  using V4 = typename L::V4;

  // The reference of the softmax moves only when a score exceeds it by this much.
  static constexpr float kSlack = 4.0f;

  // [token][row]: scores, then weights.
  struct alignas(64) TileScores {
    float at[kDecodeTile * kRowBlock];
  };

  static V RotatedLow(V low, V high, V cos, V sin) { return NegMulAdd(high, sin, low * cos); }
  static V RotatedHigh(V low, V high, V cos, V sin) { return MulAdd(low, sin, high * cos); }

  static void LoadHalves(int count, int head_dim, const Bf16* x, float* out) {
    const int half = head_dim / 2;
    const int padded = PaddedHalf(head_dim);
    for (int i = 0; i < count; ++i, x += head_dim, out += 2 * padded) {
      if (half == padded) {
        for (int d = 0; d < head_dim; d += 8) V::LoadBf16(x + d).Store(out + d);
        continue;
      }
      std::memset(out, 0, 2 * padded * sizeof(float));
      for (int d = 0; d < half; ++d) {
        out[d] = ToFloat(x[d]);
        out[padded + d] = ToFloat(x[half + d]);
      }
    }
  }

  // 1. Softmax of a tile. Scores become weights exp(s - max); all that the rows have summed so far
  // is rescaled when max moves.
  static void MoveReference(const float (&tile_max)[kRowBlock], const RowBlock& rows,
                            int num_anchors) {
    alignas(32) float shift[8] = {};
    bool moved = false;
    for (int r = 0; r < rows.num_rows; ++r) {
      if (!(tile_max[r] > rows.max[r] + kSlack)) continue;
      shift[r] = rows.max[r] - tile_max[r];
      rows.max[r] = tile_max[r];
      moved = true;
    }
    if (!moved) return;
    const V factors = Exp(V::Load(shift));
    const V4 factor = L::Low(factors);
    factors.Store(shift);
    (V4::Load(rows.sum) * factor).Store(rows.sum);
    for (int a = 0; a < num_anchors; ++a) {
      float* bin = rows.bins + a * kRowBlock;
      (V4::Load(bin) * factor).Store(bin);
    }
    for (int r = 0; r < rows.num_rows; ++r) {
      if (shift[r] == 1.0f) continue;
      if (num_anchors > 0) {
        const int width = 4 * PaddedQuarter(rows.head_dim);
        Scale(width, shift[r], rows.residual + r * width);
      } else {
        Scale(rows.head_dim, shift[r], rows.out + r * rows.head_dim);
      }
    }
  }

  static void Scale(int count, float factor, float* x) {
    const V scale = V::Set(factor);
    for (int i = 0; i < count; i += 8) (V::Load(x + i) * scale).Store(x + i);
  }

  static void Softmax(int count, const RowBlock& rows, int num_anchors, TileScores& scores) {
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    // Two tokens a vector; an odd last one is paired with one that has no weight.
    if (count % 2 != 0) V4::Set(kNothing).Store(scores.at + count * kRowBlock);
    const int floats = (count + 1) / 2 * 2 * kRowBlock;
    V largest = V::Set(kNothing);
    for (int i = 0; i < floats; i += 8) largest = Max(V::Load(scores.at + i), largest);
    float tile_max[kRowBlock];
    Max(L::Low(largest), L::High(largest)).Store(tile_max);
    MoveReference(tile_max, rows, num_anchors);

    alignas(32) float reference[8];
    std::memcpy(reference, rows.max, kRowBlock * sizeof(float));
    std::memcpy(reference + kRowBlock, rows.max, kRowBlock * sizeof(float));
    const V max = V::Load(reference);
    V sum = V::Zero();
    for (int i = 0; i < floats; i += 8) {
      const V weight = Exp(V::Load(scores.at + i) - max);
      weight.Store(scores.at + i);
      sum = sum + weight;
    }
    (V4::Load(rows.sum) + (L::Low(sum) + L::High(sum))).Store(rows.sum);
  }

  // 2. Dense tokens.
  template <int R>
  static void DenseTileRows(int count, const Bf16* k, const Bf16* v, const RowBlock& rows) {
    const int dim = rows.head_dim;
    TileScores scores;
    for (int t = 0; t < count; ++t) {
      const Bf16* key = k + t * dim;
      V dots[kRowBlock] = {V::Zero(), V::Zero(), V::Zero(), V::Zero()};
      for (int d = 0; d < dim; d += 8) {
        // The next tile; a prefetch past the end does nothing.
        if (d % 32 == 0) {
          __builtin_prefetch(key + kDecodeTile * dim + d);
          __builtin_prefetch(v + (t + kDecodeTile) * dim + d);
        }
        const V x = V::LoadBf16(key + d);
        for (int r = 0; r < R; ++r) dots[r] = MulAdd(V::Load(rows.q + r * dim + d), x, dots[r]);
      }
      L::SumRows(dots).Store(scores.at + t * kRowBlock);
    }
    Softmax(count, rows, 0, scores);
    int d = 0;
    for (; d + 16 <= dim; d += 16) AddWeighted<R, 2>(count, d, v, scores.at, rows);
    for (; d < dim; d += 8) AddWeighted<R, 1>(count, d, v, scores.at, rows);
  }

  // out[r][d ..] += sum_t weights[t][r] x[t][d ..], 8 N coordinates from d.
  template <int R, int N>
  static void AddWeighted(int count, int d, const Bf16* x, const float* weights,
                          const RowBlock& rows) {
    const int dim = rows.head_dim;
    V sums[R][N];
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; ++n) sums[r][n] = V::Load(rows.out + r * dim + d + 8 * n);
    }
    for (int t = 0; t < count; ++t) {
      V part[N];
      for (int n = 0; n < N; ++n) part[n] = V::LoadBf16(x + int64_t{t} * dim + d + 8 * n);
      for (int r = 0; r < R; ++r) {
        const V weight = V::Set(weights[t * kRowBlock + r]);
        for (int n = 0; n < N; ++n) sums[r][n] = MulAdd(weight, part[n], sums[r][n]);
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; ++n) sums[r][n].Store(rows.out + r * dim + d + 8 * n);
    }
  }

  // 3. Compact tokens.
  static void RotateQueriesBack(const CompactTile& tile, const RowBlock& rows) {
    const int half = rows.head_dim / 2;
    const int padded = PaddedHalf(rows.head_dim);
    for (int r = 0; r < rows.num_rows; ++r) {
      const float* q = rows.q + r * rows.head_dim;
      float* low = rows.q_tile + r * 2 * padded;
      float* high = low + padded;
      int j = 0;
      for (; j + 8 <= half; j += 8) {
        const V a = V::Load(q + j);
        const V b = V::Load(q + half + j);
        const V cos = V::Load(tile.cos + j);
        const V sin = V::Load(tile.sin + j);
        MulAdd(b, sin, a * cos).Store(low + j);
        NegMulAdd(a, sin, b * cos).Store(high + j);
      }
      for (; j < half; ++j) {
        low[j] = q[j] * tile.cos[j] + q[half + j] * tile.sin[j];
        high[j] = q[half + j] * tile.cos[j] - q[j] * tile.sin[j];
      }
    }
  }

  template <int R>
  static void KeyScores(const CompactHead& head, const CompactTile& tile, const RowBlock& rows,
                        TileScores& scores) {
    const int half = PaddedHalf(rows.head_dim);
    for (int t = 0; t < tile.count; ++t) {
      const float* anchor = head.key_anchors + int64_t{tile.key_anchor[t]} * 2 * half;
      const float* cos = head.cos + t * half;
      const float* sin = head.sin + t * half;
      V dots[kRowBlock] = {V::Zero(), V::Zero(), V::Zero(), V::Zero()};
      for (int j = 0; j < half; j += 8) {
        const V a = V::Load(anchor + j);
        const V b = V::Load(anchor + half + j);
        const V c = V::Load(cos + j);
        const V s = V::Load(sin + j);
        const V low = RotatedLow(a, b, c, s);
        const V high = RotatedHigh(a, b, c, s);
        for (int r = 0; r < R; ++r) {
          const float* q = rows.q_tile + r * 2 * half + j;
          dots[r] = MulAdd(V::Load(q), low, dots[r]);
          dots[r] = MulAdd(V::Load(q + half), high, dots[r]);
        }
      }
      (L::SumRows(dots) * V4::Set(tile.key_gamma[t])).Store(scores.at + t * kRowBlock);
    }
  }

  // Eight code bytes, or as many as the vector still has.
  static uint64_t LoadCodes(const uint8_t* codes, int available) {
    uint64_t bytes = 0;
    if (available >= 8) {
      std::memcpy(&bytes, codes, 8);
    } else {
      std::memcpy(&bytes, codes, static_cast<size_t>(available));
    }
    return bytes;
  }

  // `twice`: the positions that have a second code too.
  template <int R>
  static void AddKeyResiduals(const ResidualRun& run, uint64_t twice, const RowBlock& rows,
                              TileScores& scores) {
    const int bytes = rows.head_dim / 4;
    const int quarter = PaddedQuarter(rows.head_dim);
    const uint8_t* codes = run.codes;
    const Bf16* scale = run.scale;
    for (uint64_t mask = run.mask; mask != 0; mask &= mask - 1, codes += bytes, ++scale) {
      const int t = std::countr_zero(mask);
      const float* queries = (twice >> t & 1) != 0 ? rows.q_rotated : rows.q_spread;
      V dots[kRowBlock] = {V::Zero(), V::Zero(), V::Zero(), V::Zero()};
      for (int b = 0; b < bytes; b += 8) {
        V levels[4];
        L::LoadLevels(LoadCodes(codes + b, bytes - b), levels);
        for (int r = 0; r < R; ++r) {
          const float* q = queries + r * 4 * quarter + b;
          for (int plane = 0; plane < 4; ++plane) {
            dots[r] = MulAdd(V::Load(q + plane * quarter), levels[plane], dots[r]);
          }
        }
      }
      float* score = scores.at + t * kRowBlock;
      MulAdd(L::SumRows(dots), V4::Set(ToFloat(*scale)), V4::Load(score)).Store(score);
    }
  }

  static void FillBins(const CompactTile& tile, const RowBlock& rows, const TileScores& weights) {
    for (int t = 0; t < tile.count; ++t) {
      float* bin = rows.bins + int64_t{tile.value_anchor[t]} * kRowBlock;
      const V4 weight = V4::Load(weights.at + t * kRowBlock);
      MulAdd(weight, V4::Set(tile.value_gamma[t]), V4::Load(bin)).Store(bin);
    }
  }

  // R rows from `row`, eight bytes of every code from b.
  template <int R>
  static void AddValueResidualsAt(int b, int row, int count, const ResidualRun& run,
                                  const float* weights, const RowBlock& rows) {
    const int bytes = rows.head_dim / 4;
    const int quarter = PaddedQuarter(rows.head_dim);
    float* out = rows.residual + row * 4 * quarter + b;
    V sums[R][4];
    for (int r = 0; r < R; ++r) {
      for (int plane = 0; plane < 4; ++plane) {
        sums[r][plane] = V::Load(out + (4 * r + plane) * quarter);
      }
    }
    const uint8_t* codes = run.codes + b;
    for (int i = 0; i < count; ++i, codes += bytes) {
      V levels[4];
      L::LoadLevels(LoadCodes(codes, bytes - b), levels);
      for (int r = 0; r < R; ++r) {
        const V weight = V::Set(weights[i * kRowBlock + row + r]);
        for (int plane = 0; plane < 4; ++plane) {
          sums[r][plane] = MulAdd(weight, levels[plane], sums[r][plane]);
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int plane = 0; plane < 4; ++plane) {
        sums[r][plane].Store(out + (4 * r + plane) * quarter);
      }
    }
  }

  static void AddValueResiduals(const ResidualRun& run, const RowBlock& rows,
                                const TileScores& weights) {
    TileScores scaled;
    int count = 0;
    for (uint64_t mask = run.mask; mask != 0; mask &= mask - 1, ++count) {
      const V4 weight = V4::Load(weights.at + std::countr_zero(mask) * kRowBlock);
      (weight * V4::Set(ToFloat(run.scale[count]))).Store(scaled.at + count * kRowBlock);
    }
    if (count == 0) return;
    for (int b = 0; b < rows.head_dim / 4; b += 8) {
      int row = 0;
      for (; row + 2 <= rows.num_rows; row += 2) {
        AddValueResidualsAt<2>(b, row, count, run, scaled.at, rows);
      }
      if (row < rows.num_rows) AddValueResidualsAt<1>(b, row, count, run, scaled.at, rows);
    }
  }

  template <int R>
  static void CompactTileRows(const CompactHead& head, const CompactTile& tile,
                              const RowBlock& rows) {
    TileScores scores;
    RotateQueriesBack(tile, rows);
    KeyScores<R>(head, tile, rows, scores);
    for (const ResidualRun& run : tile.key_residuals) {
      AddKeyResiduals<R>(run, tile.key_residuals[1].mask, rows, scores);
    }
    Softmax(tile.count, rows, head.num_anchors, scores);
    FillBins(tile, rows, scores);
    for (const ResidualRun& run : tile.value_residuals) AddValueResiduals(run, rows, scores);
  }

  template <int R>
  static void CollectBinsRows(const CompactHead& head, const RowBlock& rows) {
    const int dim = rows.head_dim;
    int d = 0;
    for (; d + 16 <= dim; d += 16) {
      AddWeighted<R, 2>(head.num_anchors, d, head.value_anchors, rows.bins, rows);
    }
    for (; d < dim; d += 8) {
      AddWeighted<R, 1>(head.num_anchors, d, head.value_anchors, rows.bins, rows);
    }
  }

  // 4. One instance per number of rows.
  static void DenseTile(int count, const Bf16* k, const Bf16* v, const RowBlock& rows) {
    switch (rows.num_rows) {
      case 1:
        return DenseTileRows<1>(count, k, v, rows);
      case 2:
        return DenseTileRows<2>(count, k, v, rows);
      case 3:
        return DenseTileRows<3>(count, k, v, rows);
      default:
        return DenseTileRows<4>(count, k, v, rows);
    }
  }

  static void AddCompactTile(const CompactHead& head, const CompactTile& tile,
                             const RowBlock& rows) {
    switch (rows.num_rows) {
      case 1:
        return CompactTileRows<1>(head, tile, rows);
      case 2:
        return CompactTileRows<2>(head, tile, rows);
      case 3:
        return CompactTileRows<3>(head, tile, rows);
      default:
        return CompactTileRows<4>(head, tile, rows);
    }
  }

  static void CollectBins(const CompactHead& head, const RowBlock& rows) {
    switch (rows.num_rows) {
      case 1:
        return CollectBinsRows<1>(head, rows);
      case 2:
        return CollectBinsRows<2>(head, rows);
      case 3:
        return CollectBinsRows<3>(head, rows);
      default:
        return CollectBinsRows<4>(head, rows);
    }
  }

  static constexpr DecodeKernels Kernels() {
    return {LoadHalves, DenseTile, AddCompactTile, CollectBins};
  }
};

}  // namespace anchorage::kernels
