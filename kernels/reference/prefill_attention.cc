#include "kernels/reference/prefill_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace anchorage::kernels::reference {
namespace {

// All keys of one head after RoPE, [num_keys, head_dim].
std::vector<double> RotatedKeys(int64_t num_keys, const Bf16* k, const RopeView& rope) {
  const int dim = rope.head_dim;
  const int half = dim / 2;
  std::vector<double> rotated(num_keys * dim);
  for (int64_t t = 0; t < num_keys; ++t) {
    for (int j = 0; j < half; ++j) {
      const double a = ToFloat(k[t * dim + j]);
      const double b = ToFloat(k[t * dim + half + j]);
      const double c = rope.cos[t * half + j];
      const double s = rope.sin[t * half + j];
      rotated[t * dim + j] = a * c - b * s;
      rotated[t * dim + half + j] = b * c + a * s;
    }
  }
  return rotated;
}

// out = softmax(q . keys / sqrt(dim)) values over num_keys keys; returns the log-sum-exp.
double AttendRow(int64_t num_keys, int dim, const float* q, const double* keys, const Bf16* values,
                 double* out) {
  std::vector<double> scores(num_keys);
  for (int64_t t = 0; t < num_keys; ++t) {
    double dot = 0;
    for (int i = 0; i < dim; ++i) dot += q[i] * keys[t * dim + i];
    scores[t] = dot / std::sqrt(static_cast<double>(dim));
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  std::fill(out, out + dim, 0.0);
  for (int64_t t = 0; t < num_keys; ++t) {
    const double weight = std::exp(scores[t] - largest);
    sum += weight;
    for (int i = 0; i < dim; ++i) out[i] += weight * ToFloat(values[t * dim + i]);
  }
  for (int i = 0; i < dim; ++i) out[i] /= sum;
  return largest + std::log(sum);
}

}  // namespace

void PrefillAttention(const PrefillAttentionShape& shape, const float* q, const Bf16* k,
                      const Bf16* v, const RopeView& rope, double* out, double* lse) {
  const int dim = shape.head_dim;
  const int group = shape.num_q_heads / shape.num_kv_heads;
  for (int kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
    const int64_t offset = kv_head * shape.kv_capacity * dim;
    const std::vector<double> keys = RotatedKeys(shape.q_start + shape.q_len, k + offset, rope);
    for (int64_t row = 0; row < shape.q_len; ++row) {
      for (int g = 0; g < group; ++g) {
        const int64_t index = row * shape.num_q_heads + kv_head * group + g;
        const double row_lse = AttendRow(shape.q_start + row + 1, dim, q + index * dim, keys.data(),
                                         v + offset, out + index * dim);
        if (lse != nullptr) lse[index] = row_lse;
      }
    }
  }
}

}  // namespace anchorage::kernels::reference
