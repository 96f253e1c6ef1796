// Which prefix positions of a head become anchors (AnchorKV, arXiv 2608.02901): the first few
// (attention sinks), the best by score, and some at random, so that what the window does not look
// at has something near it too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/plan/plan.h"

namespace anchorage::kv {

// plan.num_pins + num_scored + num_uniform distinct positions of [0, P), ascending. A pure
// function: the uniform ones have the smallest UniformHash. Ties: lower position.
//   scores  [P] of this head; NaN counts as 0
std::vector<uint32_t> SelectAnchors(const LayerPlan& plan, int layer, int64_t head, uint64_t seed,
                                    std::span<const float> scores);

// SplitMix64 of (seed, layer, head, position).
uint64_t UniformHash(uint64_t seed, int layer, int64_t head, int64_t position);

}  // namespace anchorage::kv
