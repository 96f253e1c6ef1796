// Private to transport/data/: the connections of one plane, those that it made and those that were
// made to it.
//
// An endpoint is named by a serial number, which is never used again, so that whoever remembers one
// can ask at any time. UCX tells of a broken one inside a progress call, where it must not be
// closed: Break only marks it, and CloseBroken does the rest. Closing by force is the one way to
// make UCX let go of memory; the transfers on the endpoint then end in their own callbacks.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/data/counters.h"
#include "transport/data/ucx/calls.h"
#include "transport/data/ucx/socket_address.h"
#include "transport/data/ucx/worker.h"

namespace anchorage::transport {

// On the worker's thread, but for Listen, which comes before it.
class UcxEndpoints {
 public:
  using Serial = uint64_t;
  using Time = std::chrono::steady_clock::time_point;
  // An endpoint has been closed: nothing can be sent over it any more.
  using OnClosed = std::function<void(Serial endpoint, const absl::Status& reason)>;

  // All references must outlive it.
  UcxEndpoints(UcxWorker& worker, UcxCalls& calls, Counters& counters, OnClosed on_closed);

  ~UcxEndpoints() { StopListening(); }

  // Accepts connections at "host:port" from now on; returns the address with its real port.
  absl::StatusOr<std::string> Listen(const std::string& address);
  void StopListening();

  // The endpoint to that address: the one in use, or a new one.
  absl::StatusOr<Serial> Connect(const SocketAddress& address);
  // The next Connect to its address makes a new endpoint; this one goes on.
  void Retire(Serial endpoint);
  // Ends it soon, and why. Also from inside a callback of UCX.
  void Break(Serial endpoint, const absl::Status& reason);
  void BreakAll(const absl::Status& reason);
  // Closes what was broken; false: nothing was.
  bool CloseBroken();

  // Null: broken or closed.
  ucp_ep_h handle(Serial endpoint) const;
  // 0: none of ours.
  Serial Find(ucp_ep_h handle) const;
  size_t size() const { return endpoints_.size(); }

  // When anything last ended or began on the endpoint, but not before `since`.
  void NoteProgress(Serial endpoint);
  Time LastProgress(Serial endpoint, Time since) const;

  // What an endpoint uses, for the log; empty: there is none.
  std::string DescribeLanes() const;

 private:
  struct Endpoint {
    ucp_ep_h handle = nullptr;
    std::string address;  // of the receiver; empty for a sender that connected to us
    bool broken = false;
    absl::Status reason;
    Time last_progress;
  };

  Serial Add(ucp_ep_h handle, std::string address);
  absl::StatusOr<ucp_ep_h> Create(ucp_ep_params_t parameters);
  static void OnConnection(ucp_conn_request_h request, void* self);
  static void OnError(void* self, ucp_ep_h handle, ucs_status_t status);

  UcxWorker& worker_;
  UcxCalls& calls_;
  Counters& counters_;
  const OnClosed on_closed_;
  ucp_listener_h listener_ = nullptr;
  Serial next_ = 1;
  std::map<Serial, Endpoint> endpoints_;
  std::map<std::string, Serial> by_address_;  // where the next transfer goes
  std::map<ucp_ep_h, Serial> by_handle_;
};

}  // namespace anchorage::transport
