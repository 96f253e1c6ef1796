// Private to transport/data/: what a backend does behind the verbs of a data plane. Everything of
// it lives on one thread, which ThreadedPlane starts and joins; only Post and PostShutdown may be
// called from others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "transport/data/counters.h"
#include "transport/data/data_plane.h"

namespace anchorage::transport {

// A send that has been checked. `done` counts it out of `sends_in_flight`.
struct OutgoingTransfer {
  DataPlane::SendId id = 0;  // rises in the order of the calls
  std::string header;
  std::span<const std::byte> payload;
  std::function<void(absl::Status)> done;
};

class DataBackend {
 public:
  virtual ~DataBackend() = default;

  virtual const char* name() const = 0;
  // Known before Run.
  virtual const std::string& listen_address() const = 0;
  virtual Counters& counters() = 0;

  // Serves until the shutdown has ended every transfer and run every callback.
  virtual void Run() = 0;

  // Runs `command` on the thread. False: the plane has been shut down and it never will.
  virtual bool Post(std::function<void()> command) = 0;
  // Ends everything; the last command, since Post takes none after it. False: was called before.
  virtual bool PostShutdown() = 0;

  // On the thread, as DataPlane says.
  virtual void Send(const std::string& address, OutgoingTransfer transfer) = 0;
  virtual void CancelSend(DataPlane::SendId id) = 0;
  virtual void CloseLanding(uint64_t token) = 0;
  virtual std::string Describe() const = 0;
};

// What a send ends with when the plane has been shut down.
inline absl::Status PlaneStopped() { return absl::CancelledError("the data plane was shut down"); }

}  // namespace anchorage::transport
