// A finished layer made up from a seed: keys and values that cluster around a few directions, as
// real ones do, and observation rows with their exact attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/stream.h"
#include "kv/compressor.h"
#include "kv/plan/plan.h"
#include "kv/rotate_row.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {

struct LayerShape {
  int64_t seq_len = 0;
  int num_kv_heads = 1;
  int num_q_heads = 1;
  int head_dim = 64;

  std::string ToString() const {
    return "S" + std::to_string(seq_len) + "_H" + std::to_string(num_kv_heads) + "_Q" +
           std::to_string(num_q_heads) + "_D" + std::to_string(head_dim);
  }
};

// Owns what LayerKv and ObservedRowsView point to.
class MadeUpLayer {
 public:
  static constexpr int kWindow = 32;

  // `fill(side, head, position, row)` writes one row of K or V in float.
  using Fill = std::function<void(Side, int, int64_t, float*)>;

  MadeUpLayer(const LayerShape& shape, const Fill& fill, int num_rows = kWindow)
      : shape_(shape), num_rows_(static_cast<int>(std::min<int64_t>(num_rows, shape.seq_len))) {
    capacity_ = shape.seq_len + 5;  // never packed, so that strides are used
    MakeRope();
    MakeRows(fill);
    MakeObservedRows();
  }

  explicit MadeUpLayer(const LayerShape& shape) : MadeUpLayer(shape, Clustered(shape, 7)) {}

  // Rows = one of 12 directions of random length and sign + noise; keys have a bias.
  static Fill Clustered(const LayerShape& shape, uint32_t seed, float key_bias = 2.0f) {
    auto random = std::make_shared<std::mt19937>(seed);
    auto directions = std::make_shared<std::vector<std::vector<float>>>();
    std::normal_distribution<float> normal;
    for (int i = 0; i < 12; ++i) {
      directions->emplace_back();
      for (int d = 0; d < shape.head_dim; ++d) directions->back().push_back(normal(*random));
    }
    return [=](Side side, int head, int64_t position, float* row) {
      std::normal_distribution<float> gauss;
      const auto& direction = (*directions)[(*random)() % directions->size()];
      const float length = 1.5f * gauss(*random);
      for (int d = 0; d < shape.head_dim; ++d) {
        row[d] = length * direction[d] + 0.4f * gauss(*random);
        if (side == Side::kKey && d % 9 == 0) row[d] += key_bias;
      }
    };
  }

  const LayerShape& shape() const { return shape_; }
  // Of a model in which this is layer 3, the last one.
  Geometry geometry() const { return {4, shape_.num_kv_heads, shape_.head_dim}; }
  kernels::RopeView rope() const {
    return {cos_.data(), sin_.data(), shape_.head_dim, rope_positions_};
  }
  LayerKv layer(int index = 3) const {
    return {index,
            {shape_.num_kv_heads, shape_.head_dim, shape_.seq_len, capacity_, k_.data(), v_.data()},
            rope()};
  }
  kernels::ObservedRowsView observed() const {
    return {num_rows_, shape_.num_q_heads, shape_.head_dim, q_.data(), lse_.data(), out_.data()};
  }

  kernels::Bf16* Row(Side side, int64_t head, int64_t position) {
    std::vector<kernels::Bf16>& rows = side == Side::kKey ? k_ : v_;
    return rows.data() + (head * capacity_ + position) * shape_.head_dim;
  }
  const kernels::Bf16* Row(Side side, int64_t head, int64_t position) const {
    return const_cast<MadeUpLayer*>(this)->Row(side, head, position);
  }

  // A row as a cache should give it back: K after RoPE, V as it is.
  std::vector<float> Exact(Side side, int64_t head, int64_t position) const {
    std::vector<float> row(static_cast<size_t>(shape_.head_dim));
    const kernels::Bf16* stored = Row(side, head, position);
    for (int d = 0; d < shape_.head_dim; ++d) row[d] = kernels::ToFloat(stored[d]);
    if (side == Side::kKey) RotateRow(rope(), position, row.data());
    return row;
  }

  absl::StatusOr<CompressedLayer> Compress(
      const PlanOptions& options, int num_threads = 1,
      kernels::CodePacking packing = kernels::CodePacking::kPlanar) const {
    kernels::Stream stream(num_threads);
    Workspace workspace;
    return MakeCompressor(options)->Compress(layer(), observed(),
                                             PlanLayer(geometry(), options, shape_.seq_len, 3),
                                             packing, workspace, stream);
  }

 private:
  void MakeRope() {
    rope_positions_ = shape_.seq_len + 64;
    const int half = shape_.head_dim / 2;
    for (int64_t position = 0; position < rope_positions_; ++position) {
      for (int j = 0; j < half; ++j) {
        const double angle =
            static_cast<double>(position) * std::pow(10'000.0, -static_cast<double>(j) / half);
        cos_.push_back(static_cast<float>(std::cos(angle)));
        sin_.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }

  void MakeRows(const Fill& fill) {
    const auto size = static_cast<size_t>(shape_.num_kv_heads * capacity_ * shape_.head_dim);
    k_.resize(size, kernels::ToBf16(std::numeric_limits<float>::quiet_NaN()));
    v_ = k_;
    std::vector<float> row(static_cast<size_t>(shape_.head_dim));
    for (const Side side : kSides) {
      for (int head = 0; head < shape_.num_kv_heads; ++head) {
        for (int64_t position = 0; position < shape_.seq_len; ++position) {
          fill(side, head, position, row.data());
          std::transform(row.begin(), row.end(), Row(side, head, position), kernels::ToBf16);
        }
      }
    }
  }

  // Random queries after RoPE, with the log-sum-exp and the output of exact causal attention.
  void MakeObservedRows() {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    const int dim = shape_.head_dim;
    const int group = shape_.num_q_heads / shape_.num_kv_heads;
    q_.resize(static_cast<size_t>(num_rows_ * shape_.num_q_heads * dim));
    out_.resize(q_.size());
    lse_.resize(static_cast<size_t>(num_rows_ * shape_.num_q_heads));
    for (float& value : q_) value = 0.5f * normal(random);
    for (int head = 0; head < shape_.num_kv_heads; ++head) {
      std::vector<std::vector<float>> keys;
      for (int64_t t = 0; t < shape_.seq_len; ++t) keys.push_back(Exact(Side::kKey, head, t));
      for (int row = 0; row < num_rows_; ++row) {
        for (int g = 0; g < group; ++g) Attend(keys, head, row, head * group + g);
      }
    }
  }

  void Attend(const std::vector<std::vector<float>>& keys, int head, int row, int q_head) {
    const int dim = shape_.head_dim;
    const int64_t count = shape_.seq_len - num_rows_ + row + 1;
    const float* q = &q_[(row * shape_.num_q_heads + q_head) * dim];
    std::vector<double> scores(static_cast<size_t>(count));
    double top = -1e300;
    for (int64_t t = 0; t < count; ++t) {
      for (int d = 0; d < dim; ++d) scores[t] += double{q[d]} * keys[t][d];
      scores[t] /= std::sqrt(dim);
      top = std::max(top, scores[t]);
    }
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - top);
    const double lse = top + std::log(sum);
    std::vector<double> y(static_cast<size_t>(dim));
    for (int64_t t = 0; t < count; ++t) {
      const double alpha = std::exp(scores[t] - lse);
      const kernels::Bf16* value = Row(Side::kValue, head, t);
      for (int d = 0; d < dim; ++d) y[d] += alpha * kernels::ToFloat(value[d]);
    }
    lse_[row * shape_.num_q_heads + q_head] = static_cast<float>(lse);
    for (int d = 0; d < dim; ++d) {
      out_[(row * shape_.num_q_heads + q_head) * dim + d] = static_cast<float>(y[d]);
    }
  }

  LayerShape shape_;
  int num_rows_;
  int64_t capacity_ = 0;
  int64_t rope_positions_ = 0;
  std::vector<float> cos_, sin_;
  std::vector<kernels::Bf16> k_, v_;  // [H, capacity, D]
  std::vector<float> q_, lse_, out_;
};

// |a - b|^2 / |b|^2 over all rows of one side.
inline double RelativeError(const MadeUpLayer& layer, Side side, const std::vector<float>& rows) {
  double error = 0;
  double energy = 0;
  const LayerShape& shape = layer.shape();
  const float* row = rows.data();
  for (int head = 0; head < shape.num_kv_heads; ++head) {
    for (int64_t t = 0; t < shape.seq_len; ++t, row += shape.head_dim) {
      const std::vector<float> exact = layer.Exact(side, head, t);
      for (int d = 0; d < shape.head_dim; ++d) {
        error += std::pow(double{row[d]} - exact[d], 2);
        energy += std::pow(double{exact[d]}, 2);
      }
    }
  }
  return energy == 0 ? error : error / energy;
}

}  // namespace anchorage::kv
