// What the kernel tests share: fixed random data, a fixture that runs a test under each instruction
// set of this machine, and comparisons.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "kernels/types.h"
#include "tests/support/sanitized.h"

namespace anchorage::kernels {

// Relative error of one float rounding.
inline constexpr double kUnit = 0x1p-24;

inline std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2}) {
    if (IsaSupported(isa)) isas.push_back(isa);
  }
  return isas;
}

// Runs each test once per supported instruction set and restores the machine's own after it.
class IsaTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { ASSERT_TRUE(ForceIsa(GetParam())); }
  void TearDown() override { ASSERT_TRUE(ForceIsa(before_)); }

 private:
  Isa before_ = ActiveIsa();
};

#define INSTANTIATE_FOR_EVERY_ISA(Suite)                                      \
  INSTANTIATE_TEST_SUITE_P(Isas, Suite, ::testing::ValuesIn(SupportedIsas()), \
                           [](const auto& info) { return std::string(IsaName(info.param)); })

// Standard normal values.
inline std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

inline std::vector<Bf16> RandomBf16(int64_t count, uint32_t seed) {
  const std::vector<float> values = RandomFloats(count, seed);
  std::vector<Bf16> rounded(count);
  for (int64_t i = 0; i < count; ++i) rounded[i] = ToBf16(values[i]);
  return rounded;
}

// A stored weight matrix with its bytes.
struct TestWeights {
  std::vector<std::byte> bytes;
  WeightView view;
};

// Random codes; halves (scales, minima and F16 values) of either sign with magnitude in [2^-8, 1).
inline TestWeights RandomWeights(WeightType type, int64_t rows, int64_t cols, uint32_t seed) {
  TestWeights weights;
  weights.bytes.resize(rows * WeightRowBytes(type, cols));
  weights.view = {type, rows, cols, weights.bytes.data()};
  std::mt19937 engine(seed);
  if (type == WeightType::kF32) {
    const std::vector<float> values = RandomFloats(rows * cols, seed);
    std::memcpy(weights.bytes.data(), values.data(), weights.bytes.size());
    return weights;
  }
  for (std::byte& byte : weights.bytes) byte = static_cast<std::byte>(engine());
  const auto put_half = [&](size_t at) {
    const auto bits = static_cast<uint16_t>((engine() & 0x83ffu) | ((7 + engine() % 8) << 10));
    std::memcpy(weights.bytes.data() + at, &bits, sizeof(bits));
  };
  const size_t block = type == WeightType::kF16 ? 2 : type == WeightType::kQ4_1 ? 20 : 34;
  for (size_t at = 0; at < weights.bytes.size(); at += block) {
    put_half(at);
    if (type == WeightType::kQ4_1) put_half(at + 2);
  }
  return weights;
}

// A rotary table with the usual frequencies base^(-2 j / head_dim).
class TestRope {
 public:
  TestRope(int head_dim, int64_t num_positions, double base = 10000.0)
      : head_dim_(head_dim), num_positions_(num_positions) {
    for (int64_t position = 0; position < num_positions; ++position) {
      for (int j = 0; j < head_dim / 2; ++j) {
        const double angle = static_cast<double>(position) * std::pow(base, -2.0 * j / head_dim);
        cos_.push_back(static_cast<float>(std::cos(angle)));
        sin_.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }

  RopeView view() const { return {cos_.data(), sin_.data(), head_dim_, num_positions_}; }

 private:
  int head_dim_;
  int64_t num_positions_;
  std::vector<float> cos_;
  std::vector<float> sin_;
};

// Same bits, NaN and the sign of zero included.
inline bool SameBits(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

}  // namespace anchorage::kernels
