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

std::optional<WorkerId> ChooseDecode(std::span<const DecodeCandidate> candidates, uint64_t model,
                                     int64_t bytes) {
  const DecodeCandidate* best = nullptr;
  for (const DecodeCandidate& candidate : candidates) {
    if (candidate.model != model || candidate.headroom_bytes < bytes) continue;
    if (best == nullptr || candidate.headroom_bytes > best->headroom_bytes) best = &candidate;
  }
  if (best == nullptr) return std::nullopt;
  return best->id;
}

std::optional<Pair> ChoosePair(std::span<const PrefillCandidate> prefills,
                               std::span<const DecodeCandidate> decodes, int64_t bytes) {
  std::optional<Pair> pair;
  int64_t shortest = 0;
  for (const PrefillCandidate& prefill : prefills) {
    if (pair && prefill.queued_tokens >= shortest) continue;
    const auto decode = ChooseDecode(decodes, prefill.model, bytes);
    if (!decode) continue;
    pair = Pair{prefill.id, *decode};
    shortest = prefill.queued_tokens;
  }
  return pair;
}

}  // namespace anchorage::router
