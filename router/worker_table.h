// The workers that this router is connected to, and what each last said of itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/worker.pb.h"
#include "router/request.h"
#include "transport/control/channel.h"

namespace anchorage::router {

struct Worker {
  WorkerId id = 0;
  proto::Role role = proto::ROLE_UNKNOWN;
  transport::ControlChannelPtr channel;
  proto::NodeState state;
  bool spoke = false;  // a state came since it connected

  bool ready() const { return spoke && state.ready() && !state.draining(); }
  // Fingerprint of the weights that it serves.
  uint64_t model() const { return channel->peer().identity().model_fingerprint(); }
};

// Not thread-safe.
class WorkerTable {
 public:
  // `identity`: what every worker must agree with. The router does not read weights: workers tell
  // their model_fingerprint, and only workers with the same one are paired.
  explicit WorkerTable(proto::Identity identity) : identity_(std::move(identity)) {}

  // Whether a peer that says so may work here as a `role`; a sentence when not.
  absl::Status Judge(proto::Role role, const proto::Hello& hello) const;

  Worker& Add(proto::Role role, transport::ControlChannelPtr channel);
  void Remove(WorkerId id);

  Worker* Find(WorkerId id);
  Worker* FindByChannel(const transport::ControlChannel* channel);
  std::vector<Worker*> Ready(proto::Role role);
  int64_t Count(proto::Role role) const;
  int64_t CountReady(proto::Role role) const;
  int64_t CountDraining(proto::Role role) const;

  // OK while some prefill and some decode node of the same model are ready; else Unavailable says
  // what is missing.
  absl::Status CanServe() const;

  // What `worker` and its partner must agree with.
  proto::Identity IdentityOf(const Worker& worker) const;

 private:
  const proto::Identity identity_;
  std::map<WorkerId, Worker> workers_;
  WorkerId next_id_ = 1;
};

}  // namespace anchorage::router
