// What a decode node exports beside the transfer metrics of worker/.
#pragma once

#include <string>

#include "decode_node/core/engine.h"
#include "observe/metrics.h"

namespace anchorage::decode {

// Thread-safe.
class Metrics {
 public:
  Metrics(observe::MetricsRegistry& registry, const std::string& model_name);

  // Reads the gauges from `engine` at each scrape; it must outlive the registry's last one.
  void Watch(observe::MetricsRegistry& registry, const Engine& engine);

  // A sequence joined the batch, so long after its last layer was there.
  void OnJoin(int64_t waited_ns) const {
    queue_wait_.Observe(static_cast<double>(waited_ns) * 1e-9);
  }
  void OnStep(int64_t batch_size, int64_t duration_ns) const;
  void OnTokens(int64_t count) const { tokens_.Add(static_cast<double>(count)); }
  void OnGap(int64_t ns) const { inter_token_.Observe(static_cast<double>(ns) * 1e-9); }
  // A sequence is over; the mean of its gaps.
  void OnMeanGap(int64_t ns) const { per_output_token_.Observe(static_cast<double>(ns) * 1e-9); }
  void OnVerified(int64_t ns) const { verify_.Observe(static_cast<double>(ns) * 1e-9); }
  void OnRefused(bool draining) const { (draining ? draining_ : headroom_).Add(); }

 private:
  observe::Histogram queue_wait_;
  observe::Histogram batch_size_;
  observe::Histogram step_;
  observe::Histogram inter_token_;
  observe::Histogram per_output_token_;
  observe::Histogram verify_;
  observe::Counter tokens_;
  observe::Counter headroom_;
  observe::Counter draining_;
};

}  // namespace anchorage::decode
