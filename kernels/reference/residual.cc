#include "kernels/reference/residual.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace anchorage::kernels::reference {
namespace {

// Element (i, j) of U.
double RotationElement(int dim, int i, int j) {
  int block = 1;
  while (dim % (2 * block) == 0) block *= 2;
  if (i / block != j / block) return 0.0;
  const auto common = static_cast<unsigned>(i % block) & static_cast<unsigned>(j % block);
  const double sign = std::popcount(common) % 2 == 0 ? 1.0 : -1.0;
  return sign * ResidualSign(j) / std::sqrt(static_cast<double>(block));
}

}  // namespace

void RotateResidual(int dim, double* x) {
  std::vector<double> out(dim, 0.0);
  for (int i = 0; i < dim; ++i) {
    for (int j = 0; j < dim; ++j) out[i] += RotationElement(dim, i, j) * x[j];
  }
  std::copy(out.begin(), out.end(), x);
}

void UnrotateResidual(int dim, double* x) {
  std::vector<double> out(dim, 0.0);
  for (int j = 0; j < dim; ++j) {
    for (int i = 0; i < dim; ++i) out[j] += RotationElement(dim, i, j) * x[i];
  }
  std::copy(out.begin(), out.end(), x);
}

double Distortion(int dim, const double* z, double scale) {
  double sum = 0.0;
  for (int i = 0; i < dim; ++i) {
    const double inner = std::fabs(z[i]) - scale * double{kInnerLevel};
    const double outer = std::fabs(z[i]) - scale * double{kOuterLevel};
    sum += std::min(inner * inner, outer * outer);
  }
  return sum;
}

double BestScale(int dim, const double* z) {
  std::vector<double> sizes(dim);
  for (int i = 0; i < dim; ++i) sizes[i] = std::fabs(z[i]);
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  double best = 0.0;
  for (int outer = 0; outer <= dim; ++outer) {
    double dot = 0.0;
    double norm = 0.0;
    for (int i = 0; i < dim; ++i) {
      const double level = i < outer ? double{kOuterLevel} : double{kInnerLevel};
      dot += sizes[i] * level;
      norm += level * level;
    }
    if (Distortion(dim, z, dot / norm) < Distortion(dim, z, best)) best = dot / norm;
  }
  return best;
}

double NearestOfTwo(double z, const TwoScales& scales) {
  constexpr double kLevels[] = {-double{kOuterLevel}, -double{kInnerLevel}, double{kInnerLevel},
                                double{kOuterLevel}};
  double nearest = std::numeric_limits<double>::infinity();
  for (const double coarse : kLevels) {
    for (const double fine : kLevels) {
      nearest = std::min(nearest, std::fabs(z - scales.scale * coarse - scales.fine_scale * fine));
    }
  }
  return nearest;
}

double DecodeCoordinate(int dim, const uint8_t* codes, double scale, CodePacking packing, int i) {
  const bool linear = packing == CodePacking::kLinear;
  const int byte = linear ? i / 4 : i % (dim / 4);
  const int place = linear ? i % 4 : i / (dim / 4);
  switch ((codes[byte] >> (2 * place)) & 3) {
    case 0:
      return -scale * double{kOuterLevel};
    case 1:
      return -scale * double{kInnerLevel};
    case 2:
      return scale * double{kInnerLevel};
    default:
      return scale * double{kOuterLevel};
  }
}

}  // namespace anchorage::kernels::reference
