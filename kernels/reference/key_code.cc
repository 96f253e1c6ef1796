#include "kernels/reference/key_code.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/residual.h"

namespace anchorage::kernels::reference {
namespace {

constexpr double kLevels[] = {-double{kOuterLevel}, -double{kInnerLevel}, double{kInnerLevel},
                              double{kOuterLevel}};

// The coordinates of a vector in the order of a head's pairs: both of the first pair, and so on.
std::vector<double> InOrder(const KeyCode& code, const double* x) {
  std::vector<double> z;
  for (int i = 0; i < code.head_dim / 2; ++i) {
    z.push_back(x[code.order[i]]);
    z.push_back(x[code.order[i] + code.head_dim / 2]);
  }
  return z;
}

}  // namespace

void DecodeKey(const KeyCode& code, const uint8_t* codes, double scale, CodePacking packing,
               double* x) {
  const int dim = code.head_dim;
  const int front = dim / 4;
  const auto level = [&](int symbol) {
    return DecodeCoordinate(dim, codes, scale, packing, symbol);
  };
  std::vector<double> z(dim, 0.0);
  for (int i = 0; i < front; ++i) {
    z[i] =
        code.gain[0] * (double{kWideSymbol} * level(i) + double{kNarrowSymbol} * level(front + i));
  }
  for (int i = 0; i < dim / 2; ++i) z[front + i] = code.gain[1] * level(2 * front + i);
  UnrotateResidual(front, z.data());
  UnrotateResidual(dim / 2, z.data() + front);
  for (int i = 0; i < dim / 2; ++i) {
    x[code.order[i]] = z[2 * i];
    x[code.order[i] + dim / 2] = z[2 * i + 1];
  }
}

double KeyDistortion(const KeyCode& code, const double* x, double scale) {
  const int front = code.head_dim / 4;
  std::vector<double> z = InOrder(code, x);
  RotateResidual(front, z.data());
  RotateResidual(code.head_dim / 2, z.data() + front);
  double sum = 0.0;
  for (int i = 0; i < code.head_dim; ++i) {
    double nearest = std::numeric_limits<double>::infinity();
    for (const double wide : kLevels) {
      for (const double narrow : kLevels) {
        double level = 0.0;
        if (i < front) level = code.gain[0] * (kWideSymbol * wide + kNarrowSymbol * narrow);
        if (i >= front && i < front + code.head_dim / 2) level = code.gain[1] * wide;
        nearest = std::min(nearest, std::fabs(z[i] - scale * level));
      }
    }
    sum += nearest * nearest;
  }
  return sum;
}

}  // namespace anchorage::kernels::reference
