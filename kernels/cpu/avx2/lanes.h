// Work across the lanes of avx2::Vec8, for the attention and anchor loops.
// Included by files compiled with -mavx2 -mfma -mf16c only.
#pragma once

#include "kernels/cpu/avx2/vec8.h"
#include "kernels/residual.h"

namespace anchorage::kernels::avx2 {

// Four floats: one per query row of a row block.
struct Vec4 {
  __m128 v;

  static Vec4 Zero() { return {_mm_setzero_ps()}; }
  static Vec4 Set(float x) { return {_mm_set1_ps(x)}; }
  static Vec4 Load(const float* p) { return {_mm_loadu_ps(p)}; }
  void Store(float* p) const { _mm_storeu_ps(p, v); }

  friend Vec4 operator+(Vec4 a, Vec4 b) { return {_mm_add_ps(a.v, b.v)}; }
  friend Vec4 operator*(Vec4 a, Vec4 b) { return {_mm_mul_ps(a.v, b.v)}; }
  friend Vec4 Max(Vec4 a, Vec4 b) { return {_mm_max_ps(a.v, b.v)}; }
  friend Vec4 MulAdd(Vec4 a, Vec4 b, Vec4 c) { return {_mm_fmadd_ps(a.v, b.v, c.v)}; }
};

struct Lanes {
  using V8 = Vec8;
  using V4 = Vec4;

  static Vec4 Low(Vec8 a) { return {_mm256_castps256_ps128(a.v)}; }
  static Vec4 High(Vec8 a) { return {_mm256_extractf128_ps(a.v, 1)}; }

  static Vec8 Abs(Vec8 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
  // For each lane where x > bound: yes, else no.
  static Vec8 SelectGreater(Vec8 x, Vec8 bound, Vec8 yes, Vec8 no) {
    return {_mm256_blendv_ps(no.v, yes.v, _mm256_cmp_ps(x.v, bound.v, _CMP_GT_OQ))};
  }

  // Lane r = sum of the lanes of rows[r], each in the order
  // ((0+1)+(2+3)) + ((4+5)+(6+7)).
  static Vec4 SumRows(const Vec8 (&rows)[4]) {
    const __m256 ab = _mm256_hadd_ps(rows[0].v, rows[1].v);
    const __m256 cd = _mm256_hadd_ps(rows[2].v, rows[3].v);
    const __m256 halves = _mm256_hadd_ps(ab, cd);
    return {_mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1))};
  }

  static void Transpose(Vec8 (&m)[8]) {
    __m256 pairs[8];
    __m256 quads[8];
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(m[i].v, m[i + 1].v);
      pairs[i + 1] = _mm256_unpackhi_ps(m[i].v, m[i + 1].v);
    }
    for (int i = 0; i < 8; i += 4) {
      quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
      quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
      quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
      quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      m[i].v = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
      m[i + 4].v = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
    }
  }

  // levels[i] lane j = level of the code in bits 2 i of byte j.
  static void LoadLevels(uint64_t bytes, Vec8 (&levels)[4]) {
    const __m256 table = _mm256_setr_ps(-kOuterLevel, -kInnerLevel, kInnerLevel, kOuterLevel,
                                        -kOuterLevel, -kInnerLevel, kInnerLevel, kOuterLevel);
    const __m256i codes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes)));
    // The permutation reads the two low bits of each lane.
    levels[0].v = _mm256_permutevar_ps(table, codes);
    levels[1].v = _mm256_permutevar_ps(table, _mm256_srli_epi32(codes, 2));
    levels[2].v = _mm256_permutevar_ps(table, _mm256_srli_epi32(codes, 4));
    levels[3].v = _mm256_permutevar_ps(table, _mm256_srli_epi32(codes, 6));
  }
};

}  // namespace anchorage::kernels::avx2
