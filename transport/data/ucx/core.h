// Private to transport/data/: the ucx backend's thread and all that it owns.
//
// The thread owns the worker; others only put a command into the queue and call ucp_worker_signal.
// A transfer is one active message with rendezvous: its header is judged before a byte is taken,
// the payload goes from the sender's memory into the receiver's region, and one small message
// brings back the verdict. Both ends hold their memory until the transport's own callback has
// fired. ucp_request_cancel does nothing for these, so a transfer is ended by closing its endpoint
// by force; since that ends its neighbours too, it first gets a moment to run to its end.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "transport/data/counters.h"
#include "transport/data/data_plane.h"
#include "transport/data/ucx/message.h"
#include "transport/data/ucx/worker.h"

namespace anchorage::transport {

class UcxCore : public std::enable_shared_from_this<UcxCore> {
 public:
  struct Outgoing {
    SocketAddress address;
    std::string header;
    std::span<const std::byte> payload;
    std::function<void(absl::Status)> done;
  };

  UcxCore(const DataPlaneOptions& options, std::unique_ptr<UcxWorker> worker);

  // Before Run().
  absl::Status Listen();

  // Until the shutdown command has been carried out.
  void Run();

  // From any thread. False when the plane has been shut down: then `command` never runs.
  bool Post(std::function<void()> command);
  bool PostShutdown();

  // Commands; on the thread.
  void Send(DataPlane::SendId id, Outgoing transfer);
  void CancelSend(DataPlane::SendId id);
  void CloseLanding(uint64_t token);
  std::string DescribeLanes() const;

  Counters& counters() { return counters_; }
  const std::string& listen_address() const { return listen_address_; }
  const std::string& description() const { return worker_->description(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  struct Endpoint {
    ucp_ep_h handle = nullptr;
    std::string address;  // of the receiver; empty for a sender that connected to us
    bool broken = false;
    absl::Status reason;
    Time last_progress;
    std::deque<DataPlane::SendId> waiting;  // in the order of their announcements
    size_t num_in_transport = 0;
    bool proven = false;  // a send has gone through: until then UCX may reorder messages
  };
  enum class Stage { kWaiting, kInTransport, kSent };
  struct Sending {
    std::string message_header;  // prefix and caller's header: must live until the send callback
    std::span<const std::byte> payload;
    std::function<void(absl::Status)> done;
    uint64_t endpoint = 0;
    Stage stage = Stage::kWaiting;  // kInTransport until the send callback: UCX has the payload
    std::optional<absl::Status> verdict;
    std::optional<absl::Status> end_reason;  // why it ended otherwise
    std::optional<Time> ended_at;            // not before UCX has let go, or the reason has come
    Time last_progress;
  };
  struct Receiving {
    uint64_t endpoint = 0;
    uint64_t id = 0;
    uint64_t sender = 0;
    size_t length = 0;
    std::optional<absl::Status> end_reason;
    std::optional<Time> ended_at;
  };
  // One call into UCX that is not over; its callback deletes it.
  struct Operation {
    UcxCore* core = nullptr;
    uint64_t key = 0;  // SendId or token
    ReplyHeader reply;
    std::string message;
  };

  // The loop.
  void RunCommands();
  unsigned Progress();
  void Sleep();
  void WatchDeadlines();
  bool CloseBrokenEndpoints();  // whether there were any
  void StartWaitingSends();
  void ShutDown();
  bool HasCommands();

  // Endpoints.
  absl::StatusOr<uint64_t> Connect(const SocketAddress& address);
  uint64_t AddEndpoint(ucp_ep_h handle, std::string address);
  void Break(uint64_t endpoint, absl::Status reason);
  void CloseByForce(ucp_ep_h handle);
  static void OnConnection(ucp_conn_request_h request, void* self);
  static void OnEndpointError(void* self, ucp_ep_h handle, ucs_status_t status);

  // Sending.
  void StartSend(DataPlane::SendId id, Sending& sending, Endpoint& endpoint);
  void OnSent(DataPlane::SendId id, ucs_status_t status);
  void OnReply(const ReplyHeader& header, std::string message);
  void EndSending(DataPlane::SendId id, absl::Status reason);
  void Finish(DataPlane::SendId id, absl::Status status);
  bool Stalled(const Sending& sending, Time now) const;
  // When the endpoint last did anything, but not before `since`.
  Time LastProgress(uint64_t endpoint, Time since) const;
  void NoteProgress(uint64_t endpoint);
  static void SendCallback(void* request, ucs_status_t status, void* operation);
  static ucs_status_t ReplyCallback(void* self, const void* header, size_t header_size, void* data,
                                    size_t length, const ucp_am_recv_param_t* parameters);

  // Receiving.
  ucs_status_t OnTransfer(const ReceivedTransfer& transfer, void* data, size_t length,
                          const ucp_am_recv_param_t& parameters);
  ucs_status_t Accept(const Receiving& receiving, const Landing& landing, void* data);
  void OnReceived(uint64_t token, ucs_status_t status);
  void Quiet(uint64_t token, absl::Status landed);
  void SendReply(uint64_t endpoint, uint64_t sender, uint64_t id, const absl::Status& verdict);
  static ucs_status_t TransferCallback(void* self, const void* header, size_t header_size,
                                       void* data, size_t length,
                                       const ucp_am_recv_param_t* parameters);
  static void ReceiveCallback(void* request, ucs_status_t status, size_t length, void* operation);

  // Starts an operation's bookkeeping, and settles one that was over at once. Null: it was.
  static void DropOperation(void* request, ucs_status_t status, void* operation);
  Operation* NewOperation(uint64_t key);
  void EndOperation(Operation* operation);

  const DataPlaneOptions options_;
  const uint64_t own_id_;
  Counters counters_;
  const std::unique_ptr<UcxWorker> worker_;
  ucp_listener_h listener_ = nullptr;
  std::string listen_address_;

  bool shutting_down_ = false;
  size_t num_operations_ = 0;
  uint64_t next_endpoint_ = 1;
  std::map<uint64_t, Endpoint> endpoints_;
  std::map<std::string, uint64_t> by_address_;
  std::map<ucp_ep_h, uint64_t> by_handle_;
  std::map<DataPlane::SendId, Sending> sendings_;
  std::map<uint64_t, Receiving> receivings_;  // by token
  // Landings without a payload, and refusals: told after the active-message callback has returned.
  std::vector<std::function<void()>> deferred_;
  Time next_watch_;

  Mutex mutex_;
  std::vector<std::function<void()>> commands_ GUARDED_BY(mutex_);
  bool shut_down_ GUARDED_BY(mutex_) = false;
};

}  // namespace anchorage::transport
