// Which nodes a request goes to, by what this router knows of them now: see pair_choice.h for the
// rules.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "router/ledger.h"
#include "router/pair_choice.h"
#include "router/request.h"
#include "router/worker_table.h"

namespace anchorage::router {

// Changes nothing. The pointers must outlive it.
class Placement {
 public:
  Placement(WorkerTable* workers, const Ledger* ledger) : workers_(*workers), ledger_(*ledger) {}

  // For a new request beside `requests` that needs no decode node.
  std::optional<WorkerId> Prefill(const RequestMap& requests) const;
  // For one that will need `bytes` besides all that is promised.
  std::optional<Pair> PairFor(int64_t bytes, const RequestMap& requests) const;
  // Who serves `model` and has the bytes now: `promised` if it can, else another.
  std::optional<WorkerId> DecodeToReserve(WorkerId promised, uint64_t model, int64_t bytes) const;

  // The most that any ready decode node could ever have.
  int64_t LargestDecodeLimit() const;

 private:
  std::vector<PrefillCandidate> PrefillCandidates(const RequestMap& requests) const;

  WorkerTable& workers_;
  const Ledger& ledger_;
};

}  // namespace anchorage::router
