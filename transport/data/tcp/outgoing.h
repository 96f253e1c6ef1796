// Private to transport/data/: the sending end of one connection. It carries all transfers to one
// address: announced in order, sent one after the other once accepted.
//
// A payload is touched only inside a non-blocking send on the plane's thread, never by a pending
// operation. So a transfer is quiet the moment it is taken off the list, and ending one disturbs no
// other: what is missing of a begun chunk is filled with zeros, and an Abort follows.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "transport/data/backend.h"
#include "transport/data/tcp/frame.h"
#include "transport/net/asio.h"
#include "transport/net/sockets.h"

namespace anchorage::transport {

class Outgoing : public std::enable_shared_from_this<Outgoing> {
 public:
  Outgoing(asio::io_context& io, std::string address, const DataPlaneOptions& options,
           Counters& counters);

  // Connects and serves; `closed` runs when it is over, after every `done`. Call once.
  void Start(std::function<void()> closed);
  void Send(OutgoingTransfer transfer);
  // False: not one of these, or over already.
  bool Cancel(DataPlane::SendId id, absl::Status reason);
  // Ends every transfer with `reason`.
  void Close(const absl::Status& reason);

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class Stage { kWaiting, kAnnounced, kSending, kSent };
  struct Transfer : OutgoingTransfer {
    explicit Transfer(OutgoingTransfer transfer)
        : OutgoingTransfer(std::move(transfer)), last_progress(std::chrono::steady_clock::now()) {}
    Stage stage = Stage::kWaiting;
    size_t sent = 0;
    Time last_progress;
  };

  asio::awaitable<void> Run(std::shared_ptr<Outgoing> self);
  asio::awaitable<absl::Status> Open();
  asio::awaitable<absl::Status> ReadReplies();
  asio::awaitable<void> WriteFrames(std::shared_ptr<Outgoing> self);
  asio::awaitable<absl::Status> WriteChunk();
  asio::awaitable<void> WatchForStalls(std::shared_ptr<Outgoing> self);

  void QueueAbort(DataPlane::SendId id);
  // Takes the transfer off the list and calls its `done`.
  void Finish(std::map<DataPlane::SendId, Transfer>::iterator transfer, absl::Status status);
  absl::Status OnReply(const TransferFrame& frame, std::string message);
  std::string NextAnnouncement();
  bool Stalled(const Transfer& transfer, Time now) const;

  asio::io_context& io_;
  const std::string address_;
  const DataPlaneOptions& options_;
  Counters& counters_;
  std::function<void()> closed_callback_;

  std::shared_ptr<Connector> connector_;
  tcp::socket socket_;
  asio::steady_timer wake_writer_;
  asio::steady_timer stall_timer_;
  bool closed_ = false;

  std::map<DataPlane::SendId, Transfer> transfers_;  // in order of their ids
  std::deque<DataPlane::SendId> waiting_;            // not announced
  std::deque<DataPlane::SendId> ready_;              // accepted
  std::string control_;                              // Aborts to be written
  Time last_io_;                                     // a byte moved, in either direction
};

}  // namespace anchorage::transport
