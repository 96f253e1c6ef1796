// Which prefill and which decode node a request goes to: pure functions of what is known.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "router/request.h"

namespace anchorage::router {

// `model`: the fingerprint that the node named. Nodes of different models may be connected at once,
// during a rollout, and are never paired.
struct PrefillCandidate {
  WorkerId id = 0;
  uint64_t model = 0;
  int64_t queued_tokens = 0;  // prompt tokens before this one's turn
};
struct DecodeCandidate {
  WorkerId id = 0;
  uint64_t model = 0;
  int64_t headroom_bytes = 0;
};
struct Pair {
  WorkerId prefill = 0;
  WorkerId decode = 0;
};

// The shortest queue in tokens; the first of equals. Nothing when there is none.
std::optional<WorkerId> ChoosePrefill(std::span<const PrefillCandidate> candidates);

// Of the nodes that serve `model` the one with the most headroom, if it has `bytes`: loads stay
// even, and the large requests of later find one node that is not nearly full. Nothing when none
// has.
std::optional<WorkerId> ChooseDecode(std::span<const DecodeCandidate> candidates, uint64_t model,
                                     int64_t bytes);

// The prefill node with the shortest queue among those whose model has a decode node with `bytes`
// of headroom, and that decode node. Nothing when there is no such pair.
std::optional<Pair> ChoosePair(std::span<const PrefillCandidate> prefills,
                               std::span<const DecodeCandidate> decodes, int64_t bytes);

}  // namespace anchorage::router
