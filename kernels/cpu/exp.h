// exp of eight floats.
#pragma once

namespace anchorage::kernels {

// Relative error below 2 ulp for x in [-87, 88]; above that as exp(88), below it 0.
// x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 split in two so that r is good to the last bit; then a
// Taylor polynomial of degree 7, whose remainder is under 6e-9.
template <typename V>
inline V Exp(V x) {
  const V lowest = V::Set(-87.0f);
  const V clamped = Max(Min(x, V::Set(88.0f)), lowest);
  const V n = Round(clamped * V::Set(0x1.715476p0f));
  V r = NegMulAdd(n, V::Set(0x1.62e4p-1f), clamped);
  r = NegMulAdd(n, V::Set(0x1.7f7d1cp-20f), r);
  V p = V::Set(1.0f / 5040);
  p = MulAdd(p, r, V::Set(1.0f / 720));
  p = MulAdd(p, r, V::Set(1.0f / 120));
  p = MulAdd(p, r, V::Set(1.0f / 24));
  p = MulAdd(p, r, V::Set(1.0f / 6));
  p = MulAdd(p, r, V::Set(0.5f));
  p = MulAdd(p, r, V::Set(1.0f));
  p = MulAdd(p, r, V::Set(1.0f));
  return ZeroUnlessAtLeast(p * PowerOfTwo(n), x, lowest);
}

}  // namespace anchorage::kernels
