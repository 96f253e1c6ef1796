// The control channel: framed protobuf over TCP, one connection per pair of processes, kept alive
// by heartbeats. The router dials, workers listen.
//
// Everything here runs on the io_context's one thread, callbacks included.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace boost::asio {
class io_context;
}

namespace anchorage::proto {
class Envelope;
class Hello;
}  // namespace anchorage::proto

namespace anchorage::transport {

// A frame longer than this ends the channel: 128 Ki prompt ids fit several times over.
inline constexpr size_t kMaxFrameBytes = 16 << 20;

struct ControlOptions {
  int64_t heartbeat_interval_ms = 1'000;
  int missed_heartbeats = 3;  // a peer is lost after so many intervals of silence
  int64_t handshake_timeout_ms = 5'000;
  int64_t connect_timeout_ms = 5'000;  // with resolving the name
  int64_t redial_min_ms = 50;          // the dialer's first pause between two tries; then doubled
  int64_t redial_max_ms = 2'000;       // its longest
  size_t max_outbox_bytes = 64 << 20;  // a peer that does not read for so long is lost
};

// One live connection whose peer has said Hello and was accepted.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;
  virtual const proto::Hello& peer() const = 0;
  virtual uint64_t peer_boot() const = 0;
  virtual const std::string& peer_address() const = 0;
  virtual bool open() const = 0;
  // Queues a message; fills in sender_boot. Messages to a closed channel are dropped: whoever waits
  // learns of it through OnDown.
  virtual void Send(proto::Envelope message) = 0;
  // Flushes what is queued, then closes. OnDown follows.
  virtual void Close(absl::Status reason) = 0;
};

using ControlChannelPtr = std::shared_ptr<ControlChannel>;

class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  // Judges a peer's Hello; it has shown our shared token (Hello.token) already. The message of a
  // bad status is sent to the peer as Reject and logged.
  virtual absl::Status OnHello(const proto::Hello& hello) = 0;
  virtual void OnUp(ControlChannelPtr channel) = 0;
  virtual void OnMessage(ControlChannelPtr channel, proto::Envelope message) = 0;
  // Once for every OnUp.
  virtual void OnDown(ControlChannelPtr channel, absl::Status reason) = 0;
};

// Accepts channels. `io` must outlive it, `handler` must live until Stop() or the destructor has
// returned: it is not called after that.
class ControlServer {
 public:
  virtual ~ControlServer() = default;       // stops without a word: no OnDown
  virtual std::string address() const = 0;  // with the real port
  // Calls OnDown for every channel that is up, then flushes and closes them in the background.
  // `stopped` runs on the loop when no coroutine is left. Idempotent; only the first call counts.
  virtual void Stop(std::function<void()> stopped = nullptr) = 0;
};
absl::StatusOr<std::unique_ptr<ControlServer>> ListenControl(boost::asio::io_context& io,
                                                             const std::string& address,
                                                             uint64_t own_boot, proto::Hello own,
                                                             const ControlOptions& options,
                                                             ControlHandler& handler);

// Dials `address` and redials for ever, with growing pauses, until stopped. A host name is resolved
// at every try, so that a restarted pod is found again. Why a try failed is logged when it changes.
// `io` and `handler` as for the server.
class ControlDialer {
 public:
  virtual ~ControlDialer() = default;  // stops without a word: no OnDown
  virtual void Stop(std::function<void()> stopped = nullptr) = 0;  // as the server's
};
std::unique_ptr<ControlDialer> DialControl(boost::asio::io_context& io, const std::string& address,
                                           uint64_t own_boot, proto::Hello own,
                                           const ControlOptions& options, ControlHandler& handler);

}  // namespace anchorage::transport
