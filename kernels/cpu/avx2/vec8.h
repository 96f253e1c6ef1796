// Eight floats in an AVX register: the vector type of the loops in kernels/cpu/*_loops.h.
// Included by files compiled with -mavx2 -mfma -mf16c only.
#pragma once

#include <immintrin.h>

#include "kernels/types.h"

namespace anchorage::kernels::avx2 {

struct Vec8 {
  __m256 v;

  static Vec8 Zero() { return {_mm256_setzero_ps()}; }
  static Vec8 Set(float x) { return {_mm256_set1_ps(x)}; }
  static Vec8 Load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Vec8 LoadBf16(const Bf16* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
  }
  static Vec8 LoadF16(const std::byte* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  // One half, in every lane.
  static Vec8 SetF16(const std::byte* p) {
    int16_t half;
    __builtin_memcpy(&half, p, sizeof(half));
    return {_mm256_cvtph_ps(_mm_set1_epi16(half))};
  }
  // Two halves, each in every lane of its own vector.
  static void SetF16Pair(const std::byte* p, Vec8& first, Vec8& second) {
    int32_t halves;
    __builtin_memcpy(&halves, p, sizeof(halves));
    const __m256 both = _mm256_cvtph_ps(_mm_set1_epi32(halves));
    first = {_mm256_moveldup_ps(both)};
    second = {_mm256_movehdup_ps(both)};
  }
  static Vec8 LoadI8(const std::byte* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))};
  }
  // The low and the high nibbles of 8 bytes.
  static void LoadNibbles(const std::byte* p, Vec8& low, Vec8& high) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m256i pairs = _mm256_cvtepu8_epi32(bytes);
    low = {_mm256_cvtepi32_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(15)))};
    high = {_mm256_cvtepi32_ps(_mm256_srli_epi32(pairs, 4))};
  }

  void Store(float* p) const { _mm256_storeu_ps(p, v); }
  // Rounds as ToBf16 does.
  void StoreBf16(Bf16* p) const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_add_epi32(bits, bias);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(upper, upper), 0b11011000);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }

  friend Vec8 operator+(Vec8 a, Vec8 b) { return {_mm256_add_ps(a.v, b.v)}; }
  friend Vec8 operator-(Vec8 a, Vec8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
  friend Vec8 operator*(Vec8 a, Vec8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
  friend Vec8 operator/(Vec8 a, Vec8 b) { return {_mm256_div_ps(a.v, b.v)}; }
  friend Vec8 Max(Vec8 a, Vec8 b) { return {_mm256_max_ps(a.v, b.v)}; }
  friend Vec8 Min(Vec8 a, Vec8 b) { return {_mm256_min_ps(a.v, b.v)}; }
  // a b + c with one rounding.
  friend Vec8 MulAdd(Vec8 a, Vec8 b, Vec8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  // c - a b with one rounding.
  friend Vec8 NegMulAdd(Vec8 a, Vec8 b, Vec8 c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
  // a where x >= bound, else zero.
  friend Vec8 ZeroUnlessAtLeast(Vec8 a, Vec8 x, Vec8 bound) {
    return {_mm256_and_ps(a.v, _mm256_cmp_ps(x.v, bound.v, _CMP_GE_OQ))};
  }
  // Nearest integer, ties to even.
  friend Vec8 Round(Vec8 a) {
    return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  // 2^n for integers n in [-126, 127].
  friend Vec8 PowerOfTwo(Vec8 n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23))};
  }

  float First() const { return _mm256_cvtss_f32(v); }
  // ((0+4)+(2+6)) + ((1+5)+(3+7)): the order of every horizontal sum.
  float Sum() const {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  float Largest() const {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
};

}  // namespace anchorage::kernels::avx2
