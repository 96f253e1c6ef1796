// What the observed queries have use for, spread over the neighbourhood: the queries that come
// after the prompt look at much the same places, but seldom at exactly the same positions. How much
// a neighbourhood is looked at is what its residuals are worth for their energy; at that price each
// position's own energy counts: at the wide neighbourhood's, which tells what a text dwells on, and
// at the near one's, which keeps all of a fact together once its beginning is asked for. The paper
// (AnchorKV, arXiv 2608.02901, eq. 6) ranks by each utility alone; what that costs stands in
// docs/FIDELITY.md.
#pragma once

#include <cstdint>
#include <span>

namespace anchorage::kv {

// utility(t) <- 4 utility(t) + energy(t) (price(t, width) + 4 price(t, min(63, width)))
// price(t, w) = sum of utilities / sum of energies, both over t - w/2 .. t + w/2 as far as that
// lies in the row; 0 where there is no energy. In place, O(P) in time and, in doubles, O(min(P,
// width)) in memory; a value does not depend on how the row lies in memory or on other rows. NaN
// counts as 0, infinity as the largest float; width 1 changes nothing.
//   utilities, energies  [P] of one head and side, none negative
//   width                odd
void PoolUtilities(std::span<float> utilities, std::span<const float> energies, int64_t width);

}  // namespace anchorage::kv
