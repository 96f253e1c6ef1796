// Work across the lanes of portable::Vec8, for the attention and anchor loops.
#pragma once

#include "kernels/cpu/portable/vec8.h"
#include "kernels/residual.h"

namespace anchorage::kernels::portable {

// Four floats: one per query row of a row block.
struct Vec4 {
  using Floats = float __attribute__((vector_size(16)));

  Floats v;

  static Vec4 Zero() { return {Floats{}}; }
  static Vec4 Set(float x) { return {Floats{x, x, x, x}}; }
  static Vec4 Load(const float* p) {
    Vec4 out;
    std::memcpy(&out.v, p, sizeof(out.v));
    return out;
  }
  void Store(float* p) const { std::memcpy(p, &v, sizeof(v)); }

  friend Vec4 operator+(Vec4 a, Vec4 b) { return {a.v + b.v}; }
  friend Vec4 operator*(Vec4 a, Vec4 b) { return {a.v * b.v}; }
  friend Vec4 Max(Vec4 a, Vec4 b) { return {a.v > b.v ? a.v : b.v}; }
  friend Vec4 MulAdd(Vec4 a, Vec4 b, Vec4 c) { return {a.v * b.v + c.v}; }
};

struct Lanes {
  using V8 = Vec8;
  using V4 = Vec4;

  static Vec4 Low(Vec8 a) { return {Vec4::Floats{a.v[0], a.v[1], a.v[2], a.v[3]}}; }
  static Vec4 High(Vec8 a) { return {Vec4::Floats{a.v[4], a.v[5], a.v[6], a.v[7]}}; }

  static Vec8 Abs(Vec8 a) { return {a.v < Vec8::Floats{} ? -a.v : a.v}; }
  // For each lane where x > bound: yes, else no.
  static Vec8 SelectGreater(Vec8 x, Vec8 bound, Vec8 yes, Vec8 no) {
    return {x.v > bound.v ? yes.v : no.v};
  }

  // Lane r = sum of the lanes of rows[r].
  static Vec4 SumRows(const Vec8 (&rows)[4]) {
    return {Vec4::Floats{rows[0].Sum(), rows[1].Sum(), rows[2].Sum(), rows[3].Sum()}};
  }

  static void Transpose(Vec8 (&m)[8]) {
    for (int i = 0; i < 8; ++i) {
      for (int j = i + 1; j < 8; ++j) {
        const float low = m[i].v[j];
        m[i].v[j] = m[j].v[i];
        m[j].v[i] = low;
      }
    }
  }

  // levels[i] lane j = level of the code in bits 2 i of byte j.
  static void LoadLevels(uint64_t bytes, Vec8 (&levels)[4]) {
    constexpr float kTable[4] = {-kOuterLevel, -kInnerLevel, kInnerLevel, kOuterLevel};
    for (int j = 0; j < 8; ++j) {
      const unsigned byte = static_cast<unsigned>(bytes >> (8 * j)) & 255u;
      for (int i = 0; i < 4; ++i) levels[i].v[j] = kTable[(byte >> (2 * i)) & 3u];
    }
  }
};

}  // namespace anchorage::kernels::portable
