#include "kernels/reference/elementwise.h"

#include <cmath>

namespace anchorage::kernels::reference {

void RmsNorm(int64_t rows, int64_t dim, const float* x, const float* weight, float eps,
             double* out) {
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < dim; ++i) sum += double{x[row * dim + i]} * x[row * dim + i];
    const double norm = std::sqrt(sum / static_cast<double>(dim) + eps);
    for (int64_t i = 0; i < dim; ++i) out[row * dim + i] = x[row * dim + i] / norm * weight[i];
  }
}

void SiluMul(int64_t count, const float* gate, const float* up, double* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = gate[i] / (1.0 + std::exp(-double{gate[i]})) * up[i];
  }
}

void ApplyRope(int64_t rows, int num_heads, int64_t stride, const RopeView& rope, int64_t first,
               const int32_t* positions, double* x) {
  const int half = rope.head_dim / 2;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t position = positions == nullptr ? first + row : positions[row];
    for (int head = 0; head < num_heads; ++head) {
      for (int j = 0; j < half; ++j) {
        const double c = rope.cos[position * half + j];
        const double s = rope.sin[position * half + j];
        double& a = x[row * stride + head * rope.head_dim + j];
        double& b = x[row * stride + head * rope.head_dim + half + j];
        const double a0 = a;
        a = a0 * c - b * s;
        b = b * c + a0 * s;
      }
    }
  }
}

}  // namespace anchorage::kernels::reference
