// Bytes in motion between two nodes: verbs that fit every backend. A transfer is
//
//   announce(header, length) -> accept(region) or refuse(reason) -> transfer -> quiet -> verdict
//
// The transport knows a header, a region and a length, and nothing of what they mean. The rule that
// everything rests on: memory is handed back only when the transport says it is quiet, whatever has
// become of the request meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace anchorage::transport {

inline constexpr size_t kMaxHeaderBytes = 512;
inline constexpr size_t kMaxTransferBytes = size_t{1} << 36;

// Where an accepted transfer lands. `token` names it in OnQuiet and CloseLanding.
struct Landing {
  std::span<std::byte> region;  // exactly the announced length
  uint64_t token = 0;           // unique among the running ones
};

// The receiving side's decisions. All calls come on the data plane's own thread and must not block.
class TransferReceiver {
 public:
  using Reply = std::function<void(absl::Status verdict)>;
  virtual ~TransferReceiver() = default;

  // A peer wants to send `length` bytes (0 for a message that is all header). Nothing has landed.
  // A bad status refuses: its code and message are what the sender's `done` gets.
  virtual absl::StatusOr<Landing> OnAnnounce(std::span<const std::byte> header, size_t length) = 0;

  // Exactly once for each accepted transfer: nothing will write to the region any more. `landed` is
  // OK when every byte is there; `reply` then sends the verdict (from any thread, once; later than
  // the transport's end it does nothing). Not OK: the transfer broke, `reply` is empty.
  virtual void OnQuiet(uint64_t token, absl::Status landed, Reply reply) = 0;
};

struct DataPlaneOptions {
  std::string listen;      // "host:port", port 0 = any; empty: this side only sends
  std::string auth_token;  // shared secret; checked before anything else is parsed (tcp)
  TransferReceiver* receiver = nullptr;  // required with `listen`; must outlive the plane
  int64_t stall_timeout_ms = 10'000;     // no progress for so long ends a transfer (the sender's)
  // An address of this machine whose network interface carries the traffic (ucx); empty: the host
  // in `listen`, or any interface when not listening.
  std::string interface_host;
};

// What a data plane has carried since it started.
struct DataPlaneStats {
  int64_t sent_bytes = 0;  // payload and headers, on the wire
  int64_t received_bytes = 0;
  int64_t sends_in_flight = 0;
  int64_t landings_in_flight = 0;
  int64_t open_endpoints = 0;
};

// Thread-safe: any thread may call; callbacks come on the plane's own thread.
class DataPlane {
 public:
  using SendId = uint64_t;
  virtual ~DataPlane() = default;  // stops as Shutdown does

  virtual const char* name() const = 0;            // "ucx", "tcp"
  virtual std::string listen_address() const = 0;  // with the real port; empty when not listening
  virtual std::string Describe() const = 0;        // lanes in use, for the log; not in a callback

  // Sends `header` (at most kMaxHeaderBytes) and `payload` to the plane at `address`, as its
  // listen_address() says it: numbers, since looking up a name may block. `done` runs exactly once,
  // when `payload` may be reused: OK = the receiver verified it; the receiver's refusal or verdict;
  // InvalidArgument = no such address, or too long; Unavailable = peer gone; DeadlineExceeded =
  // stalled; Cancelled. `payload` must stay valid until then. Transfers to one address are
  // announced in order, but for those behind one that had to be cut off. After Shutdown `done` runs
  // at once, on the caller's thread, with Cancelled.
  virtual SendId Send(const std::string& address, std::string header,
                      std::span<const std::byte> payload,
                      std::function<void(absl::Status)> done) = 0;

  // Ends a send as soon as the transport can without disturbing another; its `done` still tells
  // when it is quiet.
  virtual void CancelSend(SendId id) = 0;

  // Ends an accepted transfer likewise; OnQuiet still tells when it is quiet.
  virtual void CloseLanding(uint64_t token) = 0;

  virtual DataPlaneStats stats() const = 0;

  // Ends every transfer, runs every callback, joins the thread. Idempotent. Not from a callback.
  virtual void Shutdown() = 0;
};

// `kind` is "ucx" or "tcp". InvalidArgument: unknown kind or bad options. FailedPrecondition: the
// environment does not suit the backend; the message says what to change.
absl::StatusOr<std::unique_ptr<DataPlane>> MakeDataPlane(const std::string& kind,
                                                         const DataPlaneOptions& options);

// Sends a pattern from the plane to itself through a second one of the same kind and compares every
// byte: run at start-up, so that a broken fabric is found before a request is. Returns what was
// used, for the log.
absl::StatusOr<std::string> SelfTest(const std::string& kind, const std::string& host);

}  // namespace anchorage::transport
