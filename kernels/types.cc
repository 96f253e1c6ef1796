#include "kernels/types.h"

namespace anchorage::kernels {

int64_t WeightRowBytes(WeightType type, int64_t cols) {
  if (cols < 0) return 0;
  switch (type) {
    case WeightType::kF32:
      return cols * 4;
    case WeightType::kF16:
      return cols * 2;
    case WeightType::kQ4_1:
      return cols % 32 == 0 ? cols / 32 * 20 : 0;
    case WeightType::kQ8_0:
      return cols % 32 == 0 ? cols / 32 * 34 : 0;
  }
  return 0;
}

}  // namespace anchorage::kernels
