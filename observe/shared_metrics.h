// Metrics that several roles export under one name, told apart by the label `role`, and what every
// process says of itself.
#pragma once

#include <string>
#include <string_view>

#include "observe/metrics.h"

namespace anchorage::observe {

// `role`: "router", "prefill" or "decode". `stage` as below.
Histogram StageDuration(MetricsRegistry& registry, std::string_view role,
                        std::string_view stage);  // tokenize queue prefill compress transfer decode
Gauge QueueDepth(MetricsRegistry& registry, std::string_view role,
                 std::string_view stage);  // admission prefill transfer decode
Histogram QueueWait(MetricsRegistry& registry, std::string_view role, std::string_view stage);
Gauge PrefillQueuedTokens(MetricsRegistry& registry, std::string_view role);
Histogram InterTokenLatency(MetricsRegistry& registry, std::string_view role,
                            std::string_view model);
Histogram TimePerOutputToken(MetricsRegistry& registry, std::string_view role,
                             std::string_view model);
Counter AdmissionRejections(MetricsRegistry& registry, std::string_view role,
                            std::string_view reason);  // headroom queue_full draining

// How this process serves: what must agree between the processes of one service.
struct ConfigInfo {
  std::string kv_mode;  // "anchorkv", "snapkv", "recent", "none"
  std::string ratio;    // "20"
  std::string layout_version;
  std::string transport;  // "ucx", "tcp"; empty for a process that moves no KV
};

// anchorage_build_info and anchorage_config_info, each 1, and the standard process_* metrics
// (CPU seconds, resident and virtual bytes, descriptors, threads, start time), read from /proc at
// each scrape.
void AddProcessMetrics(MetricsRegistry& registry, std::string_view role, const ConfigInfo& config);

}  // namespace anchorage::observe
