// What is measured and logged of the requests on their way.
#pragma once

#include <cstdint>
#include <optional>

#include "common/clock.h"
#include "router/ledger.h"
#include "router/request.h"
#include "router/router_metrics.h"
#include "router/worker_table.h"

namespace anchorage::router {

// The pointers must outlive it.
class RequestObserver {
 public:
  RequestObserver(const Clock* clock, RouterMetrics* metrics)
      : clock_(*clock), metrics_(*metrics) {}

  void OnPrefillStarted(const Request& request);
  void OnPrefillDone(const Request& request);
  // `num_new` tokens have just been accepted; before them the last one came at `previous_ns`,
  // nothing when these are the first.
  void OnTokens(const Request& request, int64_t num_new, std::optional<int64_t> previous_ns);
  void OnEnd(const Request& request, const Outcome& outcome);

  // Gauges of what runs and waits now.
  void Snapshot(const RequestMap& requests, const Ledger& ledger, const WorkerTable& workers);

 private:
  const Clock& clock_;
  RouterMetrics& metrics_;
};

}  // namespace anchorage::router
