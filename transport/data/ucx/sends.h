// Private to transport/data/: what a plane sends over UCX.
//
// A transfer is one active message with rendezvous: UCX announces the header, the receiver judges
// it and lets the payload land, and one small message brings back the verdict. `done` runs when
// both have come: UCX's own callback, after which the payload is its owner's again, and the
// verdict.
//
// Transfers to one address go over one endpoint, a few of them inside UCX at a time (its lane); the
// rest waits here.
//
// A transfer inside UCX cannot be taken back: ucp_request_cancel does nothing for it. What can be
// done is to close the endpoint by force, which ends its neighbours too. So one that nobody wants
// any more (cancelled, stalled, judged early) first gets a moment to run to its end. If it is still
// there then, its lane is retired: all that waits moves to a new endpoint, and the old one is
// closed as soon as all that UCX still holds of it is unwanted. So nothing ever fails because of
// its neighbour, and what it waits for is bounded: each wanted transfer ends or stalls.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "transport/data/backend.h"
#include "transport/data/ucx/calls.h"
#include "transport/data/ucx/endpoints.h"
#include "transport/data/ucx/message.h"
#include "transport/data/ucx/socket_address.h"
#include "transport/data/ucx/worker.h"

namespace anchorage::transport {

// On the worker's thread.
class UcxSends {
 public:
  using SendId = DataPlane::SendId;
  using Time = UcxEndpoints::Time;

  // Takes the verdicts that come to `worker`. All references must outlive it.
  UcxSends(UcxWorker& worker, UcxEndpoints& endpoints, UcxCalls& calls, Counters& counters,
           int64_t stall_timeout_ms);

  void Send(const std::string& address, OutgoingTransfer transfer);
  void Cancel(SendId id);

  // Hands to UCX what may go now.
  void StartWaiting();
  // Ends what has stalled, and what was to end and did not.
  void Watch(Time now);
  void OnEndpointClosed(UcxEndpoints::Serial endpoint, const absl::Status& reason);

  // Shutdown: everything ends with `reason`, soon or, when UCX has let go of all memory, now.
  void Stop(const absl::Status& reason);
  void FinishAll(const absl::Status& reason);

  bool empty() const { return sendings_.empty(); }

 private:
  enum class Stage {
    kWaiting,      // in its lane
    kInTransport,  // UCX has the payload
    kSent,         // waits for the verdict
  };
  struct Sending {
    std::string message_header;  // prefix and caller's header
    std::span<const std::byte> payload;
    std::function<void(absl::Status)> done;
    UcxEndpoints::Serial endpoint = 0;
    Stage stage = Stage::kWaiting;
    std::optional<absl::Status> verdict;
    std::optional<absl::Status> end_reason;  // why it ended otherwise
    std::optional<Time> ended_at;            // since when it is to end
    Time last_progress;
  };
  // The transfers of one endpoint.
  struct Lane {
    SocketAddress address;
    std::deque<SendId> waiting;  // in the order of their announcements
    size_t num_in_transport = 0;
    size_t bytes_in_transport = 0;  // of their payloads
    bool proven = false;            // a send has gone through: until then UCX may reorder messages
    bool retired = false;
  };

  void Start(SendId id, Sending& sending, Lane& lane);
  void OnSent(SendId id, ucs_status_t status);
  void OnVerdict(const ReplyHeader& header, std::string message);
  static ucs_status_t OnReply(void* self, const void* header, size_t header_size, void* data,
                              size_t length, const ucp_am_recv_param_t* parameters);
  // Ends it now, or as soon as UCX lets go.
  void End(SendId id, absl::Status reason);
  void Finish(SendId id, const absl::Status& status);

  bool Stalled(const Sending& sending, Time now) const;
  void EndStalled(Time now);
  void EndOverdue(Time now);
  void Retire(UcxEndpoints::Serial endpoint);
  void CloseUnwanted();
  static bool Wanted(const Sending& sending);

  UcxEndpoints& endpoints_;
  UcxCalls& calls_;
  Counters& counters_;
  const std::chrono::milliseconds stall_timeout_;
  const uint64_t own_id_;  // in every message, so that no other life's verdict is taken for ours
  std::map<SendId, Sending> sendings_;
  std::map<UcxEndpoints::Serial, Lane> lanes_;
};

}  // namespace anchorage::transport
