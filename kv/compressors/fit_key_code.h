// Which pairs of coordinates get the bits of a head's key residuals (kernels/key_code.h): those in
// which the observed queries are large and the residuals too.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/key_code.h"
#include "kernels/observed_rows.h"

namespace anchorage::kv {

struct FittedKeyCode {
  std::vector<uint8_t> order;  // [D / 2]
  std::array<float, 2> gain;   // root mean square of a coordinate of the front and of the middle

  kernels::KeyCode view() const {
    return {static_cast<int>(2 * order.size()), order.data(), gain.data()};
  }
};

// Adds the squares of both coordinates of each pair.  x [D]; energy [D / 2]
void AddPairEnergies(std::span<const float> x, std::span<double> energy);

// Of the observed queries of a KV head, by pair.
std::vector<double> QueryEnergies(const kernels::ObservedRowsView& observed, int num_kv_heads,
                                  int64_t head);

// The order by the product of both energies, the lower pair first where they are alike.
//   residuals [D / 2] summed over `count` positions; queries [D / 2]
FittedKeyCode FitKeyCode(std::span<const double> residuals, int64_t count,
                         std::span<const double> queries);

}  // namespace anchorage::kv
