// What this router believes about the memory of the decode nodes, who alone own it.
//
// Three kinds of bytes per node, each exact: promised (the request waits in a prefill queue),
// reserved (Reserve was sent, no answer yet) and granted. A node's pushed state says its true
// headroom; since a channel keeps its order, that state contains every grant that came before it
// and none that came after. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>

#include "common/ids.h"
#include "router/request.h"

namespace anchorage::router {

class Ledger {
 public:
  void AddNode(WorkerId node);
  void RemoveNode(WorkerId node);  // with everything on it

  // The node's word: free bytes now, and all it could ever have.
  void Correct(WorkerId node, int64_t headroom_bytes, int64_t limit_bytes);

  // An attempt is in at most one of the three, on one node. Each call moves it there.
  void Promise(WorkerId node, const AttemptId& attempt, int64_t bytes);
  void Reserve(WorkerId node, const AttemptId& attempt, int64_t bytes);
  void Grant(WorkerId node, const AttemptId& attempt, int64_t bytes);
  void Release(WorkerId node, const AttemptId& attempt);
  // The node said no: until its next state it is not asked again.
  void Refuse(WorkerId node, const AttemptId& attempt, int64_t headroom_bytes);

  // What a Reserve sent now may hope for. 0 for a node that has not spoken yet or has refused.
  int64_t headroom(WorkerId node) const;
  // The same less what is promised: what a new request may hope for.
  int64_t unpromised(WorkerId node) const;
  int64_t limit(WorkerId node) const;

  // Bytes reserved or granted by this router, over all nodes. 0 when nothing runs.
  int64_t held_bytes() const;
  int64_t promised_bytes() const;

 private:
  enum class Kind { kPromised, kReserved, kGranted };
  struct Entry {
    Kind kind = Kind::kPromised;
    int64_t bytes = 0;
    bool in_state = false;  // granted before the node's last state, which therefore contains it
  };
  struct Node {
    int64_t headroom_bytes = 0;  // as last said
    int64_t limit_bytes = 0;
    bool refused = false;
    std::map<AttemptId, Entry> entries;
  };

  void Put(WorkerId node, const AttemptId& attempt, Entry entry);
  int64_t Sum(const Node& node, Kind kind) const;

  std::map<WorkerId, Node> nodes_;
};

}  // namespace anchorage::router
