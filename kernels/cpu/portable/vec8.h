// Eight floats in plain C++ (GCC and Clang vector types): the vector type of the loops in
// kernels/cpu/*_loops.h on a machine without a faster one. No fused multiply-add: without the
// instruction it would be a library call per element.
#pragma once

#include <bit>
#include <cstring>

#include "kernels/types.h"

namespace anchorage::kernels::portable {

// Exact; subnormals, infinities and NaN included.
inline float F16ToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  // Moved to float's exponent field the value is 2^-112 times too small, also when subnormal.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

struct Vec8 {
  using Floats = float __attribute__((vector_size(32)));
  using Ints = int32_t __attribute__((vector_size(32)));

  Floats v;

  static Vec8 Zero() { return {Floats{}}; }
  static Vec8 Set(float x) { return {Floats{x, x, x, x, x, x, x, x}}; }
  static Vec8 Load(const float* p) {
    Vec8 out;
    std::memcpy(&out.v, p, sizeof(out.v));
    return out;
  }
  static Vec8 LoadBf16(const Bf16* p) {
    Vec8 out;
    for (int i = 0; i < 8; ++i) out.v[i] = ToFloat(p[i]);
    return out;
  }
  static Vec8 LoadF16(const std::byte* p) {
    uint16_t halves[8];
    std::memcpy(halves, p, sizeof(halves));
    Vec8 out;
    for (int i = 0; i < 8; ++i) out.v[i] = F16ToFloat(halves[i]);
    return out;
  }
  // One half, in every lane.
  static Vec8 SetF16(const std::byte* p) {
    uint16_t half;
    std::memcpy(&half, p, sizeof(half));
    return Set(F16ToFloat(half));
  }
  // Two halves, each in every lane of its own vector.
  static void SetF16Pair(const std::byte* p, Vec8& first, Vec8& second) {
    first = SetF16(p);
    second = SetF16(p + 2);
  }
  static Vec8 LoadI8(const std::byte* p) {
    Vec8 out;
    for (int i = 0; i < 8; ++i) out.v[i] = static_cast<float>(static_cast<int8_t>(p[i]));
    return out;
  }
  // The low and the high nibbles of 8 bytes.
  static void LoadNibbles(const std::byte* p, Vec8& low, Vec8& high) {
    for (int i = 0; i < 8; ++i) {
      low.v[i] = static_cast<float>(static_cast<uint8_t>(p[i]) & 15);
      high.v[i] = static_cast<float>(static_cast<uint8_t>(p[i]) >> 4);
    }
  }

  void Store(float* p) const { std::memcpy(p, &v, sizeof(v)); }
  // Rounds as ToBf16 does.
  void StoreBf16(Bf16* p) const {
    for (int i = 0; i < 8; ++i) p[i] = ToBf16(v[i]);
  }

  friend Vec8 operator+(Vec8 a, Vec8 b) { return {a.v + b.v}; }
  friend Vec8 operator-(Vec8 a, Vec8 b) { return {a.v - b.v}; }
  friend Vec8 operator*(Vec8 a, Vec8 b) { return {a.v * b.v}; }
  friend Vec8 operator/(Vec8 a, Vec8 b) { return {a.v / b.v}; }
  friend Vec8 Max(Vec8 a, Vec8 b) { return {a.v > b.v ? a.v : b.v}; }
  friend Vec8 Min(Vec8 a, Vec8 b) { return {a.v < b.v ? a.v : b.v}; }
  // a b + c, rounded twice here.
  friend Vec8 MulAdd(Vec8 a, Vec8 b, Vec8 c) { return {a.v * b.v + c.v}; }
  // c - a b, rounded twice here.
  friend Vec8 NegMulAdd(Vec8 a, Vec8 b, Vec8 c) { return {c.v - a.v * b.v}; }
  // a where x >= bound, else zero.
  friend Vec8 ZeroUnlessAtLeast(Vec8 a, Vec8 x, Vec8 bound) {
    return {x.v >= bound.v ? a.v : Floats{}};
  }
  // Nearest integer, ties to even; |a| < 2^22.
  friend Vec8 Round(Vec8 a) {
    const Floats shift = Set(0x1.8p23f).v;
    return {(a.v + shift) - shift};
  }
  // 2^n for integers n in [-126, 127].
  friend Vec8 PowerOfTwo(Vec8 n) {
    const Ints exponent = __builtin_convertvector(n.v, Ints) + 127;
    return {std::bit_cast<Floats>(exponent << 23)};
  }

  float First() const { return v[0]; }
  // ((0+4)+(2+6)) + ((1+5)+(3+7)): the order of every horizontal sum.
  float Sum() const { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }
  float Largest() const {
    float largest = v[0];
    for (int i = 1; i < 8; ++i) largest = v[i] > largest ? v[i] : largest;
    return largest;
  }
};

}  // namespace anchorage::kernels::portable
