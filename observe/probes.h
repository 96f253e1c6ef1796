// The admin port: probes and metrics, served from a thread of its own, so that a busy or stuck
// engine cannot make a probe wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "observe/metrics.h"

namespace anchorage::observe {

// Called on the probe thread; must be thread-safe and must not block. A bad status answers 503 with
// its message.
struct ProbeChecks {
  std::function<absl::Status()> live;   // the process works: stays OK while draining
  std::function<absl::Status()> ready;  // it takes new work
};

struct ProbeOptions {
  std::string listen;  // "host:port", port 0 = any
  int max_connections = 64;
  int64_t timeout_ms = 10'000;  // of reading one request and of writing its answer
};

// GET and HEAD of /live, /ready, /health (= /ready), /version, /metrics; all else is 404 or 405.
// Connections, header bytes and time are bounded: whatever is sent, others are answered.
class ProbeServer {
 public:
  // `registry` must outlive the server. InvalidArgument: not an address. Unavailable: it cannot be
  // bound.
  static absl::StatusOr<std::unique_ptr<ProbeServer>> Start(const ProbeOptions& options,
                                                            const MetricsRegistry* registry,
                                                            ProbeChecks checks);
  ~ProbeServer();  // closes every connection and joins the thread

  std::string address() const;  // "host:port" with the real port

 private:
  struct State;
  explicit ProbeServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace anchorage::observe
