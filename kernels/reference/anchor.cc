#include "kernels/reference/anchor.h"

#include <algorithm>
#include <cmath>

namespace anchorage::kernels::reference {
namespace {

std::vector<double> ToDoubles(int dim, const Bf16* x) {
  std::vector<double> out(dim);
  for (int d = 0; d < dim; ++d) out[d] = ToFloat(x[d]);
  return out;
}

std::vector<double> Rotated(const RopeView& rope, int64_t position, std::vector<double> x) {
  const int half = rope.head_dim / 2;
  for (int j = 0; j < half; ++j) {
    const double a = x[j];
    const double b = x[half + j];
    const double c = rope.cos[position * half + j];
    const double s = rope.sin[position * half + j];
    x[j] = a * c - b * s;
    x[half + j] = b * c + a * s;
  }
  return x;
}

double Dot(int dim, const float* q, const std::vector<double>& x) {
  double sum = 0.0;
  for (int d = 0; d < dim; ++d) sum += q[d] * x[d];
  return sum;
}

const Bf16* Row(const ActiveKvView& kv, const Bf16* x, int head, int64_t t) {
  return x + (head * kv.capacity + t) * kv.head_dim;
}

// x_t - gamma_t anchor(t).
std::vector<double> Residual(const ActiveKvView& kv, const AnchorSide& side, const Bf16* x,
                             int head, int64_t prefix, int num_anchors, int64_t t) {
  const int64_t at = head * prefix + t;
  const Bf16* anchor = side.anchors + (int64_t{head} * num_anchors + side.idx[at]) * kv.head_dim;
  const Bf16* row = Row(kv, x, head, t);
  std::vector<double> residual(kv.head_dim);
  for (int d = 0; d < kv.head_dim; ++d) {
    residual[d] = ToFloat(row[d]) - double{side.gamma[at]} * ToFloat(anchor[d]);
  }
  return residual;
}

double SquaredNorm(const std::vector<double>& x) {
  double sum = 0.0;
  for (double value : x) sum += value * value;
  return sum;
}

}  // namespace

std::vector<double> RowWeights(const ActiveKvView& kv, const ObservedRowsView& observed,
                               const RopeView& rope, int row, int q_head) {
  const int dim = kv.head_dim;
  const int head = q_head / (observed.num_q_heads / kv.num_kv_heads);
  const float* q = observed.q + (int64_t{row} * observed.num_q_heads + q_head) * dim;
  const int64_t visible = kv.seq_len - observed.num_rows + row + 1;
  std::vector<double> weights(kv.seq_len, 0.0);
  double largest = -HUGE_VAL;
  for (int64_t t = 0; t < visible; ++t) {
    const auto key = Rotated(rope, t, ToDoubles(dim, Row(kv, kv.k, head, t)));
    weights[t] = Dot(dim, q, key) / std::sqrt(static_cast<double>(dim));
    largest = std::max(largest, weights[t]);
  }
  double sum = 0.0;
  for (int64_t t = 0; t < visible; ++t) sum += weights[t] = std::exp(weights[t] - largest);
  for (double& weight : weights) weight /= sum;
  return weights;
}

void ObserveRows(const ActiveKvView& kv, const ObservedRowsView& observed, const RopeView& rope,
                 double* lse, double* out) {
  const int dim = kv.head_dim;
  const int group = observed.num_q_heads / kv.num_kv_heads;
  for (int row = 0; row < observed.num_rows; ++row) {
    for (int q_head = 0; q_head < observed.num_q_heads; ++q_head) {
      const int64_t index = int64_t{row} * observed.num_q_heads + q_head;
      const int head = q_head / group;
      const auto weights = RowWeights(kv, observed, rope, row, q_head);
      // The weight of key 0 is exp(score - lse).
      const auto key = Rotated(rope, 0, ToDoubles(dim, Row(kv, kv.k, head, 0)));
      lse[index] = Dot(dim, observed.q + index * dim, key) / std::sqrt(static_cast<double>(dim)) -
                   std::log(weights[0]);
      std::fill(out + index * dim, out + (index + 1) * dim, 0.0);
      for (int64_t t = 0; t < kv.seq_len; ++t) {
        const Bf16* v = Row(kv, kv.v, head, t);
        for (int d = 0; d < dim; ++d) out[index * dim + d] += weights[t] * ToFloat(v[d]);
      }
    }
  }
}

void ScorePrefix(const ActiveKvView& kv, const ObservedRowsView& observed, const RopeView& rope,
                 int window_len, int kappa, double* scores) {
  const int64_t prefix = kv.seq_len - window_len;
  const int group = observed.num_q_heads / kv.num_kv_heads;
  for (int head = 0; head < kv.num_kv_heads; ++head) {
    std::vector<double> mean(prefix, 0.0);
    for (int row = 0; row < observed.num_rows; ++row) {
      for (int g = 0; g < group; ++g) {
        const auto weights = RowWeights(kv, observed, rope, row, head * group + g);
        for (int64_t t = 0; t < prefix; ++t) mean[t] += weights[t] / (observed.num_rows * group);
      }
    }
    for (int64_t t = 0; t < prefix; ++t) {
      double sum = 0.0;
      for (int64_t i = t - kappa / 2; i <= t + kappa / 2; ++i) {
        if (i >= 0 && i < prefix) sum += mean[i];
      }
      scores[head * prefix + t] = sum / kappa;
    }
  }
}

double Projection(int head_dim, const Bf16* x, const Bf16* anchor) {
  double dot = 0.0;
  double norm = 0.0;
  for (int d = 0; d < head_dim; ++d) {
    dot += double{ToFloat(x[d])} * ToFloat(anchor[d]);
    norm += double{ToFloat(anchor[d])} * ToFloat(anchor[d]);
  }
  return norm > 0.0 ? dot / std::sqrt(norm) : 0.0;
}

int NearestAnchor(int head_dim, int num_anchors, const Bf16* x, const Bf16* anchors) {
  int best = 0;
  for (int a = 1; a < num_anchors; ++a) {
    // |x| is the same for all anchors and drops out of eq. 1.
    if (std::fabs(Projection(head_dim, x, anchors + int64_t{a} * head_dim)) >
        std::fabs(Projection(head_dim, x, anchors + int64_t{best} * head_dim))) {
      best = a;
    }
  }
  return best;
}

void ResidualUtilities(const ActiveKvView& kv, const ObservedRowsView& observed,
                       const RopeView& rope, int window_len, int num_anchors, const AnchorSide& key,
                       const AnchorSide& value, double* u_key, double* u_value) {
  const int dim = kv.head_dim;
  const int64_t prefix = kv.seq_len - window_len;
  const int group = observed.num_q_heads / kv.num_kv_heads;
  std::fill(u_key, u_key + kv.num_kv_heads * prefix, 0.0);
  std::fill(u_value, u_value + kv.num_kv_heads * prefix, 0.0);
  std::vector<double> lse(observed.num_rows * observed.num_q_heads);
  std::vector<double> y(lse.size() * dim);
  ObserveRows(kv, observed, rope, lse.data(), y.data());
  for (int row = 0; row < observed.num_rows; ++row) {
    for (int q_head = 0; q_head < observed.num_q_heads; ++q_head) {
      const int head = q_head / group;
      const int64_t index = int64_t{row} * observed.num_q_heads + q_head;
      const auto weights = RowWeights(kv, observed, rope, row, q_head);
      for (int64_t t = 0; t < prefix; ++t) {
        const auto r_key = Rotated(rope, t, Residual(kv, key, kv.k, head, prefix, num_anchors, t));
        const auto r_value = Residual(kv, value, kv.v, head, prefix, num_anchors, t);
        auto shift = ToDoubles(dim, Row(kv, kv.v, head, t));
        for (int d = 0; d < dim; ++d) shift[d] -= y[index * dim + d];
        const double dot = Dot(dim, observed.q + index * dim, r_key);
        const double weight = weights[t] * weights[t] / (observed.num_rows * group);
        u_key[head * prefix + t] += weight * dot * dot / dim * SquaredNorm(shift);
        u_value[head * prefix + t] += weight * SquaredNorm(r_value);
      }
    }
  }
}

double ResidualEnergy(const ActiveKvView& kv, const AnchorSide& side, const Bf16* x, int head,
                      int window_len, int num_anchors, int64_t t) {
  return SquaredNorm(Residual(kv, side, x, head, kv.seq_len - window_len, num_anchors, t));
}

}  // namespace anchorage::kernels::reference
