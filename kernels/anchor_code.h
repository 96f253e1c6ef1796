// An anchor in eight bits a coordinate: whole numbers and a power of two as their step. A number of
// seven bits times a power of two is exactly a bf16, so whoever encodes residuals and whoever
// decodes the cache work with the same anchors and nothing is rounded twice. (The paper keeps
// anchors in bf16; what a coarser anchor loses, the residual against it repairs.)
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/types.h"

namespace anchorage::kernels {

// Steps are 2^exponent, from kLeastAnchorExponent, below which bf16 has no normal numbers, to
// kMostAnchorExponent, above which the largest number would not be finite.
inline constexpr int kLeastAnchorExponent = -126;
inline constexpr int kMostAnchorExponent = 120;
inline constexpr int kMostAnchorNumber = 127;

// The smallest step with which no coordinate exceeds kMostAnchorNumber; ties of a coordinate to
// even. Returns its exponent. What is smaller than the smallest step becomes zero, and what is too
// large for the largest one (beyond 1.7e38) as large as it can be.
//   x [head_dim] finite; numbers [head_dim]
int8_t EncodeAnchor(int head_dim, const Bf16* x, int8_t* numbers);

// out = numbers 2^exponent, exactly.
//   numbers, out [count, head_dim]; exponents [count], each in kLeast.. to kMostAnchorExponent
inline void DecodeAnchors(int64_t count, int head_dim, const int8_t* numbers,
                          const int8_t* exponents, Bf16* out) {
  for (int64_t row = 0; row < count; ++row) {
    const float step = std::ldexp(1.0f, exponents[row]);
    for (int d = 0; d < head_dim; ++d, ++numbers, ++out) {
      *out = ToBf16(step * static_cast<float>(*numbers));
    }
  }
}

}  // namespace anchorage::kernels
