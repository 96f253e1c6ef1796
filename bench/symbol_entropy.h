// What an order-0 coder could make of some bytes at best.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace anchorage::bench {

// Shannon's bound in bits for a coder that knows how often each symbol occurs, and nothing else;
// its table costs nothing. Symbols have `bits` bits (1..8) and follow each other from the lowest
// bit of the first byte on; what is left over at the end is no symbol.
inline double OrderZeroBits(std::span<const std::byte> bytes, int bits) {
  std::array<int64_t, 256> counts{};
  const uint32_t mask = (1u << bits) - 1;
  uint32_t pending = 0;
  int num_pending = 0;
  int64_t total = 0;
  for (const std::byte byte : bytes) {
    pending |= std::to_integer<uint32_t>(byte) << num_pending;
    for (num_pending += 8; num_pending >= bits; num_pending -= bits, ++total) {
      ++counts[pending & mask];
      pending >>= bits;
    }
  }
  double sum = 0;
  for (const int64_t count : counts) {
    if (count > 0) {
      sum += static_cast<double>(count) *
             std::log2(static_cast<double>(total) / static_cast<double>(count));
    }
  }
  return sum;
}

}  // namespace anchorage::bench
