// Private to transport/data/: one UCX context and its worker, set up by the rules that hold for us
// (docs/ARCHITECTURE.md, data plane), and host addresses as UCX wants them.
#pragma once

#include <sys/socket.h>
#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace anchorage::transport {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  ucs_sock_addr_t ucs() const { return {reinterpret_cast<const sockaddr*>(&storage), size}; }
  std::string ToString() const;
  bool is_wildcard() const;
};

// "host:port"; a name is resolved, which may block. InvalidArgument: not an address. Unavailable:
// no such name.
absl::StatusOr<SocketAddress> ResolveSocketAddress(const std::string& address);

// Owns both handles. Its thread is the one that calls progress().
class UcxWorker {
 public:
  // `interface_host`: an address of this machine whose interface carries the traffic; empty or a
  // wildcard: any. FailedPrecondition: the environment or the machine does not suit; the message
  // says what to change.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Create(const std::string& interface_host);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h handle() const { return worker_; }
  int event_fd() const { return event_fd_; }
  // "ucx 1.13.1, TLS=tcp, NET_DEVICES=lo".
  const std::string& description() const { return description_; }

 private:
  UcxWorker() = default;
  absl::Status Init(const std::string& interface_host);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::string description_;
};

}  // namespace anchorage::transport
