// How a key's residual is coded in two bits a coordinate (AnchorKV, arXiv 2608.02901, eq. 10, with
// the bits where they count). Little of a key matters to its queries: the pairs of coordinates
// whose frequency they use and in which keys differ. So each head has an order of its pairs, the
// most important first: the front, a quarter of the coordinates, has four bits each, the half
// behind it, the middle, has two, and the rear has none. It is head_dim symbols of two bits, as a
// value's code is, and a decoder reads both alike. (A key with a second code has four bits
// everywhere, residual.h.)
//
// z = T x takes a key after RoPE there: pairs in order, front and middle each turned by its own U
// (residual.h), the rear left out. Symbols c with scale s stand for s M^T lev(c) in z, where M
// spreads z over the symbols: each coordinate of the front over two, at 1.34 and 0.335, the best
// weights for a Gaussian. The sizes that front and middle usually have, the gains, are in M as
// well.
#pragma once

#include "kernels/residual.h"
#include "kernels/types.h"

namespace anchorage::kernels {

// Weights of the two symbols of a coordinate of the front.
inline constexpr float kWideSymbol = 1.34f;
inline constexpr float kNarrowSymbol = 0.335f;

// Of one head. head_dim is a multiple of 8.
struct KeyCode {
  int head_dim = 0;
  const uint8_t* order =
      nullptr;                  // [head_dim / 2] a permutation of the pairs (j, j + head_dim / 2)
  const float* gain = nullptr;  // [2] of the front and the middle: at least 0
};

// y = M T x: what the symbols of a key meet in a query.  x, y [head_dim], apart
void SpreadQuery(const KeyCode& code, const float* x, float* y);

// Symbols and least-squares scale of a residual after RoPE; the scale is rounded to bf16 before the
// symbols are final.
//   x [head_dim]; codes [head_dim / 4] bytes
float EncodeKey(const KeyCode& code, const float* x, CodePacking packing, uint8_t* codes);

// x = s T^T M^T lev(c).  x [head_dim] overwritten
void DecodeKey(const KeyCode& code, const uint8_t* codes, float scale, CodePacking packing,
               float* x);

}  // namespace anchorage::kernels
