#include "bench/symbol_entropy.h"

#include <gtest/gtest.h>

#include <vector>

namespace anchorage::bench {
namespace {

std::vector<std::byte> Bytes(const std::vector<int>& values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(OrderZeroBitsTest, SymbolsComeFromTheLowestBitOn) {
  // 3 2 1 0, each once: two bits for each.
  EXPECT_DOUBLE_EQ(OrderZeroBits(Bytes({0b00011011}), 2), 8.0);
  // 1 1 1 0: 3 log2(4/3) + 2.
  EXPECT_NEAR(OrderZeroBits(Bytes({0b00010101}), 2), 3.2451, 1e-4);
  // Of three bits, 7 0 7 0 7 and a bit that is left over: 3 log2(5/3) + 2 log2(5/2).
  EXPECT_NEAR(OrderZeroBits(Bytes({0b11000111, 0b01110001}), 3), 4.8548, 1e-4);
}

TEST(OrderZeroBitsTest, WhatIsAlwaysTheSameCostsNothing) {
  EXPECT_EQ(OrderZeroBits(Bytes({5, 5, 5, 5}), 8), 0.0);
  EXPECT_EQ(OrderZeroBits({}, 8), 0.0);
}

TEST(OrderZeroBitsTest, WholeBytes) {
  EXPECT_DOUBLE_EQ(OrderZeroBits(Bytes({1, 2, 1, 2}), 8), 4.0);
}

}  // namespace
}  // namespace anchorage::bench
