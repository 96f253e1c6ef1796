// Private to transport/: one connection of the control channel, the same at both ends.
//
// Life: handshake -> up -> closing (flush) -> closed. Three coroutines serve it: the reader (Run),
// the writer and the ticker. Each holds the session and a token of the scope's task group; closing
// the socket and cancelling the timers ends all three.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/task_group.h"
#include "proto/worker.pb.h"
#include "transport/control/channel.h"
#include "transport/net/asio.h"

namespace anchorage::transport {

class Session;

// What a server or a dialer shares with its coroutines, which may outlive it.
class SessionScope {
 public:
  SessionScope(asio::io_context& io, uint64_t own_boot, proto::Hello own,
               const ControlOptions& options, ControlHandler& handler)
      : io(io), own_boot(own_boot), own(std::move(own)), options(options), handler(&handler) {}

  // Starts a coroutine that `tasks` counts; dropped when the scope is closed.
  void Spawn(asio::awaitable<void> coroutine);

  // Says OnDown (when `tell`) for each channel that is up and lets it flush, and ends those in
  // their handshake. `stopped` runs when the last coroutine has left. Once; later calls do nothing.
  void Stop(bool tell, std::function<void()> stopped);

  asio::io_context& io;
  const uint64_t own_boot;
  const proto::Hello own;
  const ControlOptions options;
  ControlHandler* handler;  // null once stopped: nobody is called any more
  std::set<std::shared_ptr<Session>> sessions;
  TaskGroup tasks;
};

enum class SessionRole { kDialer, kListener };

class Session final : public ControlChannel, public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<SessionScope> scope, tcp::socket socket, SessionRole role,
          std::string address);

  // Until both sides have agreed. Not OK: why not; the session is closed. Call once, in a coroutine
  // that the scope has spawned and that holds the session.
  asio::awaitable<absl::Status> Handshake();

  // After a good handshake: OnUp, messages until the channel ends, OnDown. Returns why it ended.
  asio::awaitable<absl::Status> Serve();

  // From SessionScope::Stop.
  void Stop(bool tell);

  const proto::Hello& peer() const override { return peer_; }
  uint64_t peer_boot() const override { return peer_boot_; }
  const std::string& peer_address() const override { return peer_address_; }
  bool open() const override { return state_ == State::kUp; }
  void Send(proto::Envelope message) override;
  void Close(absl::Status reason) override;

 private:
  enum class State { kHandshake, kUp, kClosing, kClosed };

  asio::awaitable<absl::Status> Agree();
  asio::awaitable<absl::Status> JudgePeer();
  asio::awaitable<absl::Status> ReadMessages();
  asio::awaitable<void> WriteFrames(std::shared_ptr<Session> self);
  asio::awaitable<void> Tick(std::shared_ptr<Session> self);

  asio::awaitable<absl::StatusOr<proto::Envelope>> ReadFrame(size_t max_bytes);
  asio::awaitable<absl::Status> ReadBytes(char* data, size_t size);
  asio::awaitable<absl::Status> WriteOne(proto::Envelope message);
  asio::awaitable<void> DiscardUntilClosed();
  void ArmHandshakeTimeout();

  proto::Envelope HeartbeatMessage();
  void Queue(proto::Envelope message);
  // Closes the socket, ends the coroutines, and calls OnDown if OnUp was. Once.
  void Down(absl::Status reason);
  // The same from the loop, for callers that the handler may be.
  void DownLater(absl::Status reason);
  void TellDown(const absl::Status& reason);

  const std::shared_ptr<SessionScope> scope_;
  tcp::socket socket_;
  const SessionRole role_;
  const std::string peer_address_;
  proto::Hello peer_;
  uint64_t peer_boot_ = 0;

  State state_ = State::kHandshake;
  bool was_up_ = false;
  bool down_told_ = false;
  std::optional<absl::Status> end_reason_;  // the first one counts
  asio::steady_timer handshake_timer_;

  std::deque<std::string> outbox_;
  size_t outbox_bytes_ = 0;         // with the frames being written
  asio::steady_timer wake_writer_;  // cancelled when there is something to write

  asio::steady_timer tick_timer_;
  bool heard_ = false;  // anything, since the last tick
  int missed_ticks_ = 0;
  int closing_ticks_ = 0;
  uint64_t heartbeat_sequence_ = 0;
};

}  // namespace anchorage::transport
