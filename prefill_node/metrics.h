// What a prefill node exports beside the transfer metrics of worker/.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "observe/metrics.h"
#include "prefill_node/core/accountant.h"
#include "prefill_node/core/request.h"

namespace anchorage::prefill {

// Numbers that the io and engine threads keep up to date and a scrape reads.
struct Gauges {
  std::atomic<int64_t> queued_prompts{0};
  std::atomic<int64_t> queued_tokens{0};
  std::atomic<int64_t> running{0};
  std::atomic<int64_t> last_step_ns{0};  // monotonic
};

// Thread-safe.
class Metrics {
 public:
  explicit Metrics(observe::MetricsRegistry& registry);

  // Reads these at each scrape; both must outlive the registry's last one.
  void Watch(observe::MetricsRegistry& registry, const Gauges& gauges,
             const MemoryAccountant& accountant);

  void OnTaken(int64_t waited_ns) const;
  // `full_bytes`: what the prompt's KV would have cost uncompressed.
  void OnPrefilled(const PrefillResult& result, int64_t full_bytes) const;
  void OnShipped(int64_t exposed_ns) const;
  // The decode node gave the memory away before all layers had come.
  void OnLeaseExpired() const { lease_expirations_.Add(); }

 private:
  observe::Histogram queue_wait_;
  observe::Histogram queue_stage_;
  observe::Histogram prefill_stage_;
  observe::Histogram compress_stage_;
  observe::Histogram transfer_stage_;
  observe::Histogram compress_layer_;
  observe::Histogram ratio_;
  observe::Counter lease_expirations_;
};

}  // namespace anchorage::prefill
