// Anchors that are made, not chosen: lines that lie closer to the positions they stand for than any
// one of these does. (The paper's are rows of the prefix, AnchorKV, arXiv 2608.02901, eq. 14.) They
// are found by Lloyd's iterations with the layout's own measure of distance, the angle to a line.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/stream.h"
#include "kernels/types.h"
#include "kv/plan/plan.h"

namespace anchorage::kv {

// What a fit of one head needs beside its input and output: some of the prefix's rows, spread
// over all of it, and where they went. n = NumFitRows(plan).
struct FitRoom {
  std::span<kernels::Bf16> rows;  // [n, D]
  std::span<uint16_t> idx;        // [n]
  std::span<float> proj;          // [n]
};

// All P, or as many as make no difference to so many anchors: 2,048, or 32 for each anchor. 0 where
// nothing is fitted.
int64_t NumFitRows(const LayerPlan& plan);

// Fills anchors num_pins .. num_pins + num_fitted - 1 of a head. They begin as rows of the prefix,
// one of each of as many equal stretches. Then, three times over, each of the rows looked at goes
// to its nearest anchor (eqs. 1, 2), and a fitted anchor turns to sum <x, a>/|a| x over its rows: a
// step of the power method towards the line that leaves least of them. One that has no rows stays
// as it is. Does not depend on the number of threads.
//   x [P, D] finite; anchors [k, D], of which the pinned ones and the window are there already
kernels::Status FitAnchors(const LayerPlan& plan, const kernels::Bf16* x,
                           std::span<kernels::Bf16> anchors, const FitRoom& room,
                           kernels::Stream& stream);

}  // namespace anchorage::kv
