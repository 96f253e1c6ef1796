#include "router/worker_table.h"

#include <algorithm>

#include "common/status.h"

namespace anchorage::router {
namespace {

const char* RoleName(proto::Role role) {
  switch (role) {
    case proto::ROLE_ROUTER:
      return "router";
    case proto::ROLE_PREFILL:
      return "prefill node";
    case proto::ROLE_DECODE:
      return "decode node";
    default:
      return "process of unknown role";
  }
}

}  // namespace

absl::Status WorkerTable::Judge(proto::Role role, const proto::Hello& hello) const {
  if (hello.role() != role) {
    return FailedPrecondition("expected a %s at this address and found a %s", RoleName(role),
                              RoleName(hello.role()));
  }
  const proto::Identity& theirs = hello.identity();
  if (theirs.wire_version() != identity_.wire_version()) {
    return FailedPrecondition("wire version %d here, %d there: upgrade one of them",
                              identity_.wire_version(), theirs.wire_version());
  }
  if (theirs.plan_fingerprint() != identity_.plan_fingerprint()) {
    return FailedPrecondition(
        "the KV plan differs: '%s' here (%016x), '%s' there (%016x); the model, --kv, --ratio, "
        "--kv-profile, --kv-floor-tokens and --pin-sinks must be the same",
        identity_.kv_mode(), identity_.plan_fingerprint(), theirs.kv_mode(),
        theirs.plan_fingerprint());
  }
  return absl::OkStatus();
}

Worker& WorkerTable::Add(proto::Role role, transport::ControlChannelPtr channel) {
  Worker& worker = workers_[next_id_];
  worker.id = next_id_++;
  worker.role = role;
  worker.channel = std::move(channel);
  return worker;
}

void WorkerTable::Remove(WorkerId id) { workers_.erase(id); }

Worker* WorkerTable::Find(WorkerId id) {
  const auto found = workers_.find(id);
  return found == workers_.end() ? nullptr : &found->second;
}

Worker* WorkerTable::FindByChannel(const transport::ControlChannel* channel) {
  for (auto& [id, worker] : workers_) {
    if (worker.channel.get() == channel) return &worker;
  }
  return nullptr;
}

std::vector<Worker*> WorkerTable::Ready(proto::Role role) {
  std::vector<Worker*> ready;
  for (auto& [id, worker] : workers_) {
    if (worker.role == role && worker.ready()) ready.push_back(&worker);
  }
  return ready;
}

int64_t WorkerTable::Count(proto::Role role) const {
  return std::count_if(workers_.begin(), workers_.end(),
                       [&](const auto& entry) { return entry.second.role == role; });
}

int64_t WorkerTable::CountReady(proto::Role role) const {
  return std::count_if(workers_.begin(), workers_.end(), [&](const auto& entry) {
    return entry.second.role == role && entry.second.ready();
  });
}

int64_t WorkerTable::CountDraining(proto::Role role) const {
  return std::count_if(workers_.begin(), workers_.end(), [&](const auto& entry) {
    return entry.second.role == role && entry.second.state.draining();
  });
}

absl::Status WorkerTable::CanServe() const {
  if (CountReady(proto::ROLE_PREFILL) == 0) return Unavailable("no prefill node is ready");
  if (CountReady(proto::ROLE_DECODE) == 0) return Unavailable("no decode node is ready");
  for (const auto& [id, prefill] : workers_) {
    if (prefill.role != proto::ROLE_PREFILL || !prefill.ready()) continue;
    for (const auto& [other_id, decode] : workers_) {
      if (decode.role == proto::ROLE_DECODE && decode.ready() &&
          decode.model() == prefill.model()) {
        return absl::OkStatus();
      }
    }
  }
  return Unavailable("no prefill and decode node that are ready have the same model");
}

proto::Identity WorkerTable::IdentityOf(const Worker& worker) const {
  proto::Identity identity = identity_;
  identity.set_model_fingerprint(worker.model());
  return identity;
}

}  // namespace anchorage::router
