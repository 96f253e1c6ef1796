#include "kernels/anchor_code.h"

#include <algorithm>

namespace anchorage::kernels {

int8_t EncodeAnchor(int head_dim, const Bf16* x, int8_t* numbers) {
  float largest = 0;
  for (int d = 0; d < head_dim; ++d) largest = std::max(largest, std::fabs(ToFloat(x[d])));
  // largest < 2^above, so that 2^(above - 7) gives at most 128, which one step more avoids.
  int above = kLeastAnchorExponent;
  if (largest > 0) std::frexp(largest, &above);
  int exponent = std::clamp(above - 7, kLeastAnchorExponent, kMostAnchorExponent);
  if (std::nearbyint(std::ldexp(largest, -exponent)) > kMostAnchorNumber) ++exponent;
  exponent = std::min(exponent, kMostAnchorExponent);
  for (int d = 0; d < head_dim; ++d) {
    const float number = std::nearbyint(std::ldexp(ToFloat(x[d]), -exponent));
    numbers[d] =
        static_cast<int8_t>(std::clamp<float>(number, -kMostAnchorNumber, kMostAnchorNumber));
  }
  return static_cast<int8_t>(exponent);
}

}  // namespace anchorage::kernels
