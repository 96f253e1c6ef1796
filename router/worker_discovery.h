// Finds the workers of one role by their names and keeps a channel to each.
//
// A name may stand for any number of addresses, which come and go: a headless Service of Kubernetes
// has one for each pod. So each name is resolved again and again. A new address is dialled; one
// that no answer has any more is forgotten, but not while its channel is up: one answer may lack a
// node that works, and a node that drains leaves the DNS before its requests are done.
//
// No sockets and no timer of its own: resolving and dialling are injected. Everything runs on the
// io thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "router/router_metrics.h"
#include "transport/control/channel.h"

namespace anchorage::router {

class WorkerDiscovery {
 public:
  // Called once, later, on the io thread: each address of the name as "ip:port". NotFound: it has
  // none. Any other error: nobody knows, and what was known stays.
  using Resolved = std::function<void(absl::StatusOr<std::vector<std::string>> addresses)>;
  using Resolve = std::function<void(const std::string& name, Resolved done)>;
  using Dial = std::function<std::unique_ptr<transport::ControlDialer>(
      const std::string& address, transport::ControlHandler& handler)>;

  // `role`: "prefill" or "decode". `names`: each "host:port". What happens on the channels is
  // handed to `handler`. The pointers must outlive it.
  WorkerDiscovery(const char* role, const std::vector<std::string>& names, Resolve resolve,
                  Dial dial, transport::ControlHandler* handler, RouterMetrics* metrics);
  ~WorkerDiscovery();  // before the loop; answers that come later must not be delivered

  // Resolves every name that is not being resolved. Call it at the start and every few seconds.
  void Refresh();

  // Closes every channel and dials no more.
  void Stop();

 private:
  class Connection;
  struct Name {
    std::set<std::string> addresses;  // of the last answer
    bool resolving = false;
    std::string problem;  // why it has no addresses, as last logged
  };

  void OnResolved(const std::string& name, const absl::StatusOr<std::vector<std::string>>& answer);
  bool IsNamed(const std::string& address) const;
  // Dials what is named and not dialled, forgets what is neither named nor up.
  void Match();
  // Addresses that are not connected, and names that stand for no address at all.
  void CountDown();

  const char* const role_;
  const Resolve resolve_;
  const Dial dial_;
  transport::ControlHandler& handler_;
  RouterMetrics& metrics_;
  std::map<std::string, Name> names_;
  std::map<std::string, std::unique_ptr<Connection>> connections_;  // by address
  bool stopped_ = false;
};

}  // namespace anchorage::router
