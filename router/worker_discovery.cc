#include "router/worker_discovery.h"

#include <algorithm>
#include <utility>

#include "observe/logging.h"
#include "proto/worker.pb.h"

namespace anchorage::router {

// One address that is being dialled, or is connected.
class WorkerDiscovery::Connection : public transport::ControlHandler {
 public:
  Connection(WorkerDiscovery* discovery, const std::string& address)
      : discovery_(*discovery), dialer_(discovery->dial_(address, *this)) {}

  bool up() const { return up_; }
  void Stop() { dialer_->Stop(); }

  absl::Status OnHello(const proto::Hello& hello) override {
    return discovery_.handler_.OnHello(hello);
  }
  void OnUp(transport::ControlChannelPtr channel) override {
    up_ = true;
    discovery_.handler_.OnUp(std::move(channel));
    discovery_.CountDown();
  }
  void OnMessage(transport::ControlChannelPtr channel, proto::Envelope message) override {
    discovery_.handler_.OnMessage(std::move(channel), std::move(message));
  }
  // An address that no name has any more is forgotten at the next answer, not here: its dialer is
  // the caller.
  void OnDown(transport::ControlChannelPtr channel, absl::Status reason) override {
    up_ = false;
    discovery_.handler_.OnDown(std::move(channel), std::move(reason));
    discovery_.CountDown();
  }

 private:
  WorkerDiscovery& discovery_;
  bool up_ = false;
  const std::unique_ptr<transport::ControlDialer> dialer_;
};

WorkerDiscovery::WorkerDiscovery(const char* role, const std::vector<std::string>& names,
                                 Resolve resolve, Dial dial, transport::ControlHandler* handler,
                                 RouterMetrics* metrics)
    : role_(role),
      resolve_(std::move(resolve)),
      dial_(std::move(dial)),
      handler_(*handler),
      metrics_(*metrics) {
  for (const std::string& name : names) names_[name];
  CountDown();
}

WorkerDiscovery::~WorkerDiscovery() = default;

void WorkerDiscovery::Refresh() {
  if (stopped_) return;
  for (auto& [name, entry] : names_) {
    if (std::exchange(entry.resolving, true)) continue;
    resolve_(name, [this, name = name](const absl::StatusOr<std::vector<std::string>>& answer) {
      OnResolved(name, answer);
    });
  }
}

void WorkerDiscovery::Stop() {
  stopped_ = true;
  for (const auto& [address, connection] : connections_) connection->Stop();
}

void WorkerDiscovery::OnResolved(const std::string& name,
                                 const absl::StatusOr<std::vector<std::string>>& answer) {
  if (stopped_) return;
  Name& entry = names_.at(name);
  entry.resolving = false;
  std::string problem(answer.status().message());
  if (!answer.ok() && problem != entry.problem) {
    observe::LogWarning("", "cannot resolve the %s nodes '%s': %s", role_, name, problem);
  }
  entry.problem = std::move(problem);
  if (answer.ok()) {
    entry.addresses = {answer->begin(), answer->end()};
  } else if (absl::IsNotFound(answer.status())) {
    entry.addresses.clear();
  }
  Match();
}

bool WorkerDiscovery::IsNamed(const std::string& address) const {
  return std::any_of(names_.begin(), names_.end(),
                     [&](const auto& name) { return name.second.addresses.contains(address); });
}

void WorkerDiscovery::Match() {
  for (const auto& [name, entry] : names_) {
    for (const std::string& address : entry.addresses) {
      if (connections_.contains(address)) continue;
      observe::LogInfo("", "dialling the %s node at %s", role_, address);
      connections_[address] = std::make_unique<Connection>(this, address);
    }
  }
  std::erase_if(connections_, [&](const auto& connection) {
    const auto& [address, peer] = connection;
    if (peer->up() || IsNamed(address)) return false;
    observe::LogInfo("", "forgetting the %s node at %s", role_, address);
    peer->Stop();
    return true;
  });
  CountDown();
}

void WorkerDiscovery::CountDown() {
  const int64_t not_up = std::count_if(connections_.begin(), connections_.end(),
                                       [](const auto& entry) { return !entry.second->up(); });
  const int64_t empty = std::count_if(names_.begin(), names_.end(), [](const auto& entry) {
    return entry.second.addresses.empty();
  });
  metrics_.SetWorkers(role_, "down", not_up + empty);
}

}  // namespace anchorage::router
