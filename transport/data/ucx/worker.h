// Private to transport/data/: one UCX context and its worker, set up by the rules that hold for us
// (docs/ARCHITECTURE.md, data plane).
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace anchorage::transport {

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
  // Active messages `id` are given to `callback` with `self`, whole, inside a progress call.
  void SetHandler(unsigned id, ucp_am_recv_callback_t callback, void* self);
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
