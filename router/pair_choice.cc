#include "router/pair_choice.h"

#include <algorithm>

namespace anchorage::router {

std::optional<WorkerId> ChoosePrefill(std::span<const PrefillCandidate> candidates) {
  const auto best = std::min_element(
      candidates.begin(), candidates.end(),
      [](const auto& a, const auto& b) { return a.queued_tokens < b.queued_tokens; });
  if (best == candidates.end()) return std::nullopt;
  return best->id;
}

std::optional<WorkerId> ChooseDecode(std::span<const DecodeCandidate> candidates, int64_t bytes) {
  const auto best = std::max_element(
      candidates.begin(), candidates.end(),
      [](const auto& a, const auto& b) { return a.headroom_bytes < b.headroom_bytes; });
  if (best == candidates.end() || best->headroom_bytes < bytes) return std::nullopt;
  return best->id;
}

}  // namespace anchorage::router
