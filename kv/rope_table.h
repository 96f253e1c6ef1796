// The cos and sin that a saved cache's keys are rotated with, made again from its header.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/types.h"

namespace anchorage::kv {

// Owns the table; computed in double and rounded once.
class RopeTable {
 public:
  // frequencies [head_dim / 2] radians per position.
  RopeTable(std::span<const double> frequencies, int64_t num_positions);

  kernels::RopeView view() const;

 private:
  int64_t num_positions_;
  size_t num_pairs_;
  std::vector<float> cos_;  // [num_positions, num_pairs]
  std::vector<float> sin_;
};

}  // namespace anchorage::kv
