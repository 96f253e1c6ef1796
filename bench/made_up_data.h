// Data for measurements: fixed random values, a rotary table, and how far an answer is off.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/types.h"

namespace anchorage::bench {

inline std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(engine);
  return values;
}

inline std::vector<kernels::Bf16> RandomBf16(int64_t count, uint32_t seed) {
  const std::vector<float> values = RandomFloats(count, seed);
  std::vector<kernels::Bf16> rounded(values.size());
  kernels::ToBf16Row(count, values.data(), rounded.data());
  return rounded;
}

// The largest difference over the largest expected value.
inline double RelativeError(const float* values, const std::vector<double>& expected) {
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(values[i] - expected[i]));
  }
  return difference / largest;
}

// The rotary table of base 1e5 for positions 0 .. num_positions - 1.
class Rope {
 public:
  Rope(int head_dim, int64_t num_positions) : head_dim_(head_dim), num_positions_(num_positions) {
    for (int64_t position = 0; position < num_positions; ++position) {
      for (int j = 0; j < head_dim / 2; ++j) {
        const double angle = static_cast<double>(position) * std::pow(1e5, -2.0 * j / head_dim);
        cos_.push_back(static_cast<float>(std::cos(angle)));
        sin_.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }

  kernels::RopeView view() const { return {cos_.data(), sin_.data(), head_dim_, num_positions_}; }

 private:
  int head_dim_;
  int64_t num_positions_;
  std::vector<float> cos_;
  std::vector<float> sin_;
};

}  // namespace anchorage::bench
