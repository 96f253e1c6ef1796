// What the observed queries have use for, spread over the neighbourhood: the queries that come
// after the prompt look at much the same places, but seldom at exactly the same positions. Ranked
// by the pooled utilities, the same slots leave about half the divergence at 20x
// (docs/FIDELITY.md); the paper (AnchorKV, arXiv 2608.02901, eq. 6) ranks by each utility alone.
#pragma once

#include <cstdint>
#include <span>

namespace anchorage::kv {

// utility(t) <- utility(t) + mean of the utilities at t - width/2 .. t + width/2, where positions
// outside the row count as 0 and the sum is always divided by `width`. In place, O(P); a value does
// not depend on how the row lies in memory or on other rows. NaN counts as 0; width 1 changes
// nothing.
//   utilities  [P] of one head and side, none negative
//   width      odd
void PoolUtilities(std::span<float> utilities, int64_t width);

}  // namespace anchorage::kv
