// The few lengths that stand for a head's projections in the compact layout.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/compact_cache.h"

namespace anchorage::kv {

using ProjectionLevels = std::array<float, kernels::kNumProjectionLevels>;

// Levels, ascending, that leave little squared error between each projection and the nearest level:
// Lloyd's iterations over a histogram. O(P); the result depends on the values alone.
//   proj  [P] finite
//   skip  ascending positions that do not count (anchors: they are exact)
// All levels are 0 when every position is skipped.
ProjectionLevels FitProjectionLevels(std::span<const float> proj, std::span<const uint32_t> skip);

// The level nearest to `proj`, the lower one of two.
uint8_t NearestLevel(const ProjectionLevels& levels, float proj);

}  // namespace anchorage::kv
