#include "worker/transfer_metrics.h"

#include <utility>

#include "observe/buckets.h"

namespace anchorage::worker {

using observe::Labels;

TransferMetrics::TransferMetrics(observe::MetricsRegistry& registry, const Clock& clock,
                                 std::string role, std::string direction, std::string transport)
    : registry_(registry), clock_(clock), role_(std::move(role)) {
  const Labels by_direction = {{"role", role_}, {"direction", direction}};
  Labels by_transport = by_direction;
  by_transport["transport"] = transport;
  bytes_ = registry.AddCounter("anchorage_kv_transfer_bytes_total",
                               "KV bytes on the wire, as compressed.", by_transport);
  uncompressed_bytes_ =
      registry.AddCounter("anchorage_kv_transfer_uncompressed_bytes_total",
                          "Bytes that the same KV would have cost uncompressed.", by_transport);
  size_ = registry.AddHistogram("anchorage_kv_transfer_size_bytes", "Bytes of one transfer.",
                                observe::TransferSizeBuckets(), by_direction);
  duration_ =
      registry.AddHistogram("anchorage_kv_transfer_duration_seconds",
                            "Time of one transfer, from its announcement until it was quiet.",
                            observe::TransferDurationBuckets(), by_transport);
  busy_seconds_ =
      registry.AddCounter("anchorage_kv_transfer_busy_seconds_total",
                          "Time in which at least one transfer was running.", by_direction);
  exposed_seconds_ = registry.AddCounter(
      "anchorage_kv_transfer_exposed_seconds_total",
      "Transfer time that no computation hid: a request waited for it.", by_direction);
  Labels outcome = by_direction;
  outcome["outcome"] = "ok";
  succeeded_ =
      registry.AddCounter("anchorage_kv_transfers_total", "Transfers that ended.", outcome);
  outcome["outcome"] = "failed";
  failed_ = registry.AddCounter("anchorage_kv_transfers_total", "Transfers that ended.", outcome);
  in_flight_ = registry.AddGauge("anchorage_kv_transfers_in_flight", "Transfers that run now.",
                                 by_direction);
  // From the start, so that the first failure is a step from zero and not a series out of nowhere.
  for (const char* reason : {"timeout", "peer_lost", "refused"}) Failures(reason);
  for (const char* reason : {"checksum", "version", "bounds", "auth"}) IntegrityFailures(reason);
}

observe::Counter TransferMetrics::Failures(const char* reason) {
  return registry_.AddCounter("anchorage_kv_transfer_failures_total",
                              "Transfers that failed, by reason.",
                              {{"role", role_}, {"reason", reason}});
}

observe::Counter TransferMetrics::IntegrityFailures(const char* reason) {
  return registry_.AddCounter("anchorage_kv_integrity_failures_total",
                              "Layers or headers that were not what they claimed to be, by reason.",
                              {{"role", role_}, {"reason", reason}});
}

int64_t TransferMetrics::Begin() {
  const int64_t now = clock_.NowNs();
  MutexLock lock(mutex_);
  if (running_++ == 0) busy_since_ns_ = now;
  in_flight_.Set(static_cast<double>(running_));
  return now;
}

void TransferMetrics::End(int64_t begin_ns) {
  const int64_t now = clock_.NowNs();
  duration_.Observe(static_cast<double>(now - begin_ns) * 1e-9);
  MutexLock lock(mutex_);
  if (--running_ == 0) busy_seconds_.Add(static_cast<double>(now - busy_since_ns_) * 1e-9);
  in_flight_.Set(static_cast<double>(running_));
}

void TransferMetrics::Succeed(int64_t begin_ns, int64_t wire_bytes, int64_t uncompressed_bytes) {
  End(begin_ns);
  succeeded_.Add();
  bytes_.Add(static_cast<double>(wire_bytes));
  uncompressed_bytes_.Add(static_cast<double>(uncompressed_bytes));
  size_.Observe(static_cast<double>(wire_bytes));
}

void TransferMetrics::Fail(int64_t begin_ns, const char* reason) {
  End(begin_ns);
  failed_.Add();
  Failures(reason).Add();
}

void TransferMetrics::IntegrityFailure(const char* reason) { IntegrityFailures(reason).Add(); }

const char* FailureReason(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return "timeout";
    case absl::StatusCode::kUnavailable:
      return "peer_lost";
    default:
      return "refused";
  }
}

}  // namespace anchorage::worker
