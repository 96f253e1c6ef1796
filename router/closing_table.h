// Attempts whose requests are over here while a worker has not yet said so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/ids.h"
#include "proto/worker.pb.h"
#include "router/request.h"

namespace anchorage::router {

// Not thread-safe.
class ClosingTable {
 public:
  // `prefill` and `decode`: who may still hold it, 0 for nobody; without either nothing is kept.
  // `now_ns`: when both were told.
  void Add(const AttemptId& attempt, WorkerId prefill, WorkerId decode, std::string log_id,
           int64_t now_ns);
  // The worker of that role has said that it holds the attempt no more.
  void Confirm(const AttemptId& attempt, proto::Role role);
  // A worker that is gone holds nothing.
  void RemoveWorker(WorkerId worker);

  // Hands each attempt that nobody was told of for `period_ns` to `cancel`, once for each worker
  // that may still hold it.
  using Cancel =
      std::function<void(WorkerId worker, const AttemptId& attempt, const std::string& log_id)>;
  void Repeat(int64_t now_ns, int64_t period_ns, const Cancel& cancel);

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }

 private:
  struct Entry {
    WorkerId prefill = 0;
    WorkerId decode = 0;
    std::string log_id;
    int64_t told_ns = 0;
    bool over() const { return prefill == 0 && decode == 0; }
  };
  std::map<AttemptId, Entry> entries_;
};

}  // namespace anchorage::router
