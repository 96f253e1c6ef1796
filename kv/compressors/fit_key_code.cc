#include "kv/compressors/fit_key_code.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anchorage::kv {

void AddPairEnergies(std::span<const float> x, std::span<double> energy) {
  const size_t half = energy.size();
  for (size_t j = 0; j < half; ++j) {
    energy[j] += double{x[j]} * x[j] + double{x[j + half]} * x[j + half];
  }
}

std::vector<double> QueryEnergies(const kernels::ObservedRowsView& observed, int num_kv_heads,
                                  int64_t head) {
  const int group = observed.num_q_heads / num_kv_heads;
  const auto dim = static_cast<size_t>(observed.head_dim);
  std::vector<double> energies(dim / 2);
  for (int64_t row = 0; row < observed.num_rows; ++row) {
    for (int64_t q_head = head * group; q_head < (head + 1) * group; ++q_head) {
      const float* q = observed.q + (row * observed.num_q_heads + q_head) * observed.head_dim;
      AddPairEnergies({q, dim}, energies);
    }
  }
  return energies;
}

FittedKeyCode FitKeyCode(std::span<const double> residuals, int64_t count,
                         std::span<const double> queries) {
  const size_t pairs = residuals.size();
  FittedKeyCode code;
  code.order.resize(pairs);
  std::iota(code.order.begin(), code.order.end(), 0);
  std::stable_sort(code.order.begin(), code.order.end(), [&](uint8_t a, uint8_t b) {
    return residuals[a] * queries[a] > residuals[b] * queries[b];
  });
  const size_t front = pairs / 4;
  const auto size_of = [&](size_t first, size_t last) {
    double energy = 0;
    for (size_t i = first; i < last; ++i) energy += residuals[code.order[i]];
    const auto coordinates = static_cast<double>(2 * (last - first)) * static_cast<double>(count);
    return coordinates > 0 ? static_cast<float>(std::sqrt(energy / coordinates)) : 0.0f;
  };
  code.gain = {size_of(0, front), size_of(front, pairs - front)};
  return code;
}

}  // namespace anchorage::kv
