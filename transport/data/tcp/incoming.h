// Private to transport/data/: the receiving end of one connection.
//
// A region is written only inside a non-blocking receive on the plane's thread, never by a pending
// operation. So a landing is quiet the moment it is closed; what still comes of it is thrown away
// until the sender has stopped.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "transport/data/counters.h"
#include "transport/data/data_plane.h"
#include "transport/data/tcp/frame.h"
#include "transport/net/asio.h"

namespace anchorage::transport {

class Incoming;

// What the connections of one plane share: its receiver, and who holds which token.
struct IncomingScope {
  asio::io_context& io;
  const DataPlaneOptions& options;
  Counters& counters;
  // Runs `judge` on the plane's thread, from any thread; does nothing once the plane has stopped.
  std::function<TransferReceiver::Reply(std::weak_ptr<Incoming>, uint64_t id)> make_reply;
  std::map<uint64_t, std::shared_ptr<Incoming>> by_token{};
};

class Incoming : public std::enable_shared_from_this<Incoming> {
 public:
  Incoming(IncomingScope& scope, tcp::socket socket);

  // Greets and serves; `greeted` runs when the handshake is over, `closed` at the end. Call once.
  void Start(std::function<void()> greeted, std::function<void()> closed);
  void CloseLanding(uint64_t token, const absl::Status& reason);
  void SendVerdict(uint64_t id, const absl::Status& verdict);
  // Ends every landing with `reason`.
  void Close(const absl::Status& reason);

 private:
  struct Entry {
    Landing landing;  // an empty region once it is quiet: the rest is thrown away
    size_t length = 0;
    size_t received = 0;
    bool quiet = false;
  };
  using Entries = std::map<uint64_t, Entry>;

  asio::awaitable<void> Run(std::shared_ptr<Incoming> self);
  asio::awaitable<absl::Status> Greet();
  asio::awaitable<absl::Status> ReadFrames();
  asio::awaitable<absl::Status> ReadAnnounce(TransferFrame frame);
  asio::awaitable<absl::Status> ReadChunk(TransferFrame frame);
  asio::awaitable<void> WriteReplies(std::shared_ptr<Incoming> self);

  absl::Status Judge(const TransferFrame& frame, std::span<const std::byte> header);
  void QueueReply(const TransferFrame& frame, const std::string& message);
  // Tells the receiver that nothing will be written any more. The entry stays until the sender has
  // stopped.
  void Quiet(uint64_t id, Entry& entry, absl::Status landed);

  IncomingScope& scope_;
  tcp::socket socket_;
  std::string peer_;
  asio::steady_timer handshake_timer_;
  asio::steady_timer wake_writer_;
  std::function<void()> greeted_callback_;
  std::function<void()> closed_callback_;
  bool closed_ = false;
  uint64_t last_id_ = 0;
  Entries entries_;      // by the sender's id
  std::string replies_;  // to be written
};

}  // namespace anchorage::transport
