// The few types that every kernel contract shares. This room includes nothing but itself and the
// standard library, so that its tests can be carried to a bare machine.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace anchorage::kernels {

// Upper half of a float. Rounding is to nearest even; NaN stays NaN.
struct Bf16 {
  uint16_t bits = 0;
};

inline float ToFloat(Bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

inline Bf16 ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// What a kernel answers. It never allocates and never throws.
enum class Status : uint8_t {
  kOk = 0,
  kInvalidShape,  // sizes disagree, are negative, or break a rule that the contract states
  kUnsupported,   // a type or size that this build has no kernel for
  kNonFinite,     // NaN or Inf where the contract forbids it
};

// How a weight matrix is stored. Rows are outputs, columns are inputs; rows are contiguous.
//   kQ4_1  blocks of 32: fp16 d, fp16 m, 16 bytes of nibbles (low = j, high = j + 16); x = d q + m
//   kQ8_0  blocks of 32: fp16 d, 32 x int8; x = d q
// As floats they are the same bits everywhere: d q is exact in float, d q + m is rounded once.
enum class WeightType : uint8_t { kF32, kF16, kQ4_1, kQ8_0 };

// Weights as they lie in the model file.
struct WeightView {
  WeightType type = WeightType::kF32;
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs; a multiple of 32 for the block types
  const std::byte* data = nullptr;
};

// Bytes of one row; 0 when `cols` does not fit the type's block.
int64_t WeightRowBytes(WeightType type, int64_t cols);

// cos and sin of position x frequency, computed in double and rounded once.
//   cos, sin  [num_positions, head_dim / 2]
// Pair j of a head is (x[j], x[j + head_dim/2]) (half-split); rotation by +angle.
struct RopeView {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int head_dim = 0;
  int64_t num_positions = 0;
};

}  // namespace anchorage::kernels
