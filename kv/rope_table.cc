#include "kv/rope_table.h"

#include <cmath>

namespace anchorage::kv {

RopeTable::RopeTable(std::span<const double> frequencies, int64_t num_positions)
    : num_positions_(num_positions), num_pairs_(frequencies.size()) {
  const size_t size = static_cast<size_t>(num_positions) * num_pairs_;
  cos_.reserve(size);
  sin_.reserve(size);
  for (int64_t position = 0; position < num_positions; ++position) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      cos_.push_back(static_cast<float>(std::cos(angle)));
      sin_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

kernels::RopeView RopeTable::view() const {
  return {cos_.data(), sin_.data(), static_cast<int>(2 * num_pairs_), num_positions_};
}

}  // namespace anchorage::kv
