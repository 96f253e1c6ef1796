// Which prefill and which decode node a request goes to: a pure function of what is known.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "router/request.h"

namespace anchorage::router {

struct PrefillCandidate {
  WorkerId id = 0;
  int64_t queued_tokens = 0;  // prompt tokens before this one's turn
};
struct DecodeCandidate {
  WorkerId id = 0;
  int64_t headroom_bytes = 0;
};

// The shortest queue in tokens; the first of equals. Nothing when there is none.
std::optional<WorkerId> ChoosePrefill(std::span<const PrefillCandidate> candidates);

// The node with the most headroom, if it has `bytes`: loads stay even, and the large requests of
// later find one node that is not nearly full. Nothing when none has.
std::optional<WorkerId> ChooseDecode(std::span<const DecodeCandidate> candidates, int64_t bytes);

}  // namespace anchorage::router
