#include "router/placement.h"

#include <algorithm>
#include <map>

namespace anchorage::router {

std::vector<PrefillCandidate> Placement::PrefillCandidates(const RequestMap& requests) const {
  std::map<WorkerId, int64_t> own_tokens;
  for (const auto& [id, request] : requests) {
    if (request->state() > State::kWaiting && request->state() < State::kDecoding) {
      own_tokens[request->prefill] += static_cast<int64_t>(request->spec().prompt_ids.size());
    }
  }
  std::vector<PrefillCandidate> candidates;
  for (const Worker* worker : workers_.Ready(proto::ROLE_PREFILL)) {
    // The node's word counts other routers' requests too, but may be a moment old.
    candidates.push_back({worker->id, worker->model(),
                          std::max(worker->state.queued_tokens(), own_tokens[worker->id])});
  }
  return candidates;
}

std::optional<WorkerId> Placement::Prefill(const RequestMap& requests) const {
  return ChoosePrefill(PrefillCandidates(requests));
}

std::optional<Pair> Placement::PairFor(int64_t bytes, const RequestMap& requests) const {
  std::vector<DecodeCandidate> decodes;
  for (const Worker* worker : workers_.Ready(proto::ROLE_DECODE)) {
    decodes.push_back({worker->id, worker->model(), ledger_.unpromised(worker->id)});
  }
  return ChoosePair(PrefillCandidates(requests), decodes, bytes);
}

std::optional<WorkerId> Placement::DecodeToReserve(WorkerId promised, uint64_t model,
                                                   int64_t bytes) const {
  const Worker* worker = workers_.Find(promised);
  if (worker != nullptr && worker->ready() && ledger_.headroom(promised) >= bytes) return promised;
  std::vector<DecodeCandidate> candidates;
  for (const Worker* other : workers_.Ready(proto::ROLE_DECODE)) {
    candidates.push_back({other->id, other->model(), ledger_.headroom(other->id)});
  }
  return ChooseDecode(candidates, model, bytes);
}

int64_t Placement::LargestDecodeLimit() const {
  int64_t limit = 0;
  for (const Worker* worker : workers_.Ready(proto::ROLE_DECODE)) {
    limit = std::max(limit, ledger_.limit(worker->id));
  }
  return limit;
}

}  // namespace anchorage::router
