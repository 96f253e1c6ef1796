// The row-wise loops over a vector type V, shared by the instruction sets.
#pragma once

#include <cmath>
#include <cstring>

#include "kernels/cpu/elementwise_kernels.h"
#include "kernels/cpu/exp.h"

namespace anchorage::kernels {

template <typename V>
struct ElementwiseLoops {
  static void RmsNormRow(int64_t dim, const float* x, const float* weight, float eps, float* out) {
    // Two chains of eight lanes, then the tail: the same order for every row of this length.
    V even = V::Zero();
    V odd = V::Zero();
    int64_t i = 0;
    for (; i + 16 <= dim; i += 16) {
      const V a = V::Load(x + i);
      const V b = V::Load(x + i + 8);
      even = MulAdd(a, a, even);
      odd = MulAdd(b, b, odd);
    }
    float sum = (even + odd).Sum();
    for (; i < dim; ++i) sum += x[i] * x[i];

    const float scale = 1.0f / std::sqrt(sum / static_cast<float>(dim) + eps);
    const V scale8 = V::Set(scale);
    for (i = 0; i + 8 <= dim; i += 8) {
      (V::Load(x + i) * scale8 * V::Load(weight + i)).Store(out + i);
    }
    for (; i < dim; ++i) out[i] = x[i] * scale * weight[i];
  }

  static V SiluMul8(V gate, V up) {
    const V one = V::Set(1.0f);
    return gate / (one + Exp(V::Zero() - gate)) * up;
  }

  static void SiluMul(int64_t count, const float* gate, const float* up, float* out) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) SiluMul8(V::Load(gate + i), V::Load(up + i)).Store(out + i);
    if (i == count) return;
    // The tail goes through the same arithmetic: an element's bits do not depend on its place.
    const int64_t rest = count - i;
    float tail[3][8] = {};
    std::memcpy(tail[0], gate + i, rest * sizeof(float));
    std::memcpy(tail[1], up + i, rest * sizeof(float));
    SiluMul8(V::Load(tail[0]), V::Load(tail[1])).Store(tail[2]);
    std::memcpy(out + i, tail[2], rest * sizeof(float));
  }

  static void RotateHead(int half, const float* cos, const float* sin, float* x) {
    int j = 0;
    for (; j + 8 <= half; j += 8) {
      const V c = V::Load(cos + j);
      const V s = V::Load(sin + j);
      const V a = V::Load(x + j);
      const V b = V::Load(x + half + j);
      NegMulAdd(b, s, a * c).Store(x + j);
      MulAdd(a, s, b * c).Store(x + half + j);
    }
    for (; j < half; ++j) {
      const float a = x[j];
      const float b = x[half + j];
      x[j] = a * cos[j] - b * sin[j];
      x[half + j] = b * cos[j] + a * sin[j];
    }
  }

  static void ToBf16Row(int64_t count, const float* x, Bf16* out) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) V::Load(x + i).StoreBf16(out + i);
    for (; i < count; ++i) out[i] = ToBf16(x[i]);
  }

  static void ToFloatRow(int64_t count, const Bf16* x, float* out) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) V::LoadBf16(x + i).Store(out + i);
    for (; i < count; ++i) out[i] = ToFloat(x[i]);
  }

  static int64_t FirstNonFinite(int64_t count, const Bf16* x) {
    constexpr int64_t kBlock = 64;
    for (int64_t first = 0; first < count; first += kBlock) {
      const int64_t last = first + kBlock < count ? first + kBlock : count;
      bool found = false;
      for (int64_t i = first; i < last; ++i) found |= (x[i].bits & 0x7f80u) == 0x7f80u;
      if (!found) continue;
      for (int64_t i = first; i < last; ++i) {
        if ((x[i].bits & 0x7f80u) == 0x7f80u) return i;
      }
    }
    return -1;
  }

  static constexpr ElementwiseKernels Kernels() {
    return {RmsNormRow, SiluMul, RotateHead, ToBf16Row, ToFloatRow, FirstNonFinite};
  }
};

}  // namespace anchorage::kernels
