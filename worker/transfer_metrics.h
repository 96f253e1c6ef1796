// What both ends of a KV transfer export, each for its direction.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "observe/metrics.h"

namespace anchorage::worker {

// Thread-safe.
class TransferMetrics {
 public:
  // `direction` is "tx" or "rx"; `transport` the data plane: "ucx" or "tcp".
  TransferMetrics(observe::MetricsRegistry& registry, const Clock& clock, std::string role,
                  std::string direction, std::string transport);

  // A transfer began; returns its start for the calls below, one of which must follow.
  int64_t Begin();
  // `wire_bytes` have arrived for KV that would have cost `uncompressed_bytes`.
  void Succeed(int64_t begin_ns, int64_t wire_bytes, int64_t uncompressed_bytes);
  // `reason`: timeout, peer_lost, refused.
  void Fail(int64_t begin_ns, const char* reason);

  // `reason`: checksum, version, bounds, auth.
  void IntegrityFailure(const char* reason);

  // Time in which the request waited for nothing but this transfer.
  void Exposed(int64_t ns) const { exposed_seconds_.Add(static_cast<double>(ns) * 1e-9); }

 private:
  void End(int64_t begin_ns);
  observe::Counter Failures(const char* reason);
  observe::Counter IntegrityFailures(const char* reason);

  observe::MetricsRegistry& registry_;
  const Clock& clock_;
  const std::string role_;
  observe::Counter bytes_;
  observe::Counter uncompressed_bytes_;
  observe::Histogram size_;
  observe::Histogram duration_;
  observe::Counter busy_seconds_;
  observe::Counter exposed_seconds_;
  observe::Counter succeeded_;
  observe::Counter failed_;
  observe::Gauge in_flight_;
  Mutex mutex_;
  int64_t running_ GUARDED_BY(mutex_) = 0;
  int64_t busy_since_ns_ GUARDED_BY(mutex_) = 0;
};

// The transfer failure's label for a status of the data plane.
const char* FailureReason(const absl::Status& status);

}  // namespace anchorage::worker
