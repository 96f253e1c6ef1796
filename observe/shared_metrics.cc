#include "observe/shared_metrics.h"

#include "common/version.h"
#include "observe/buckets.h"
#include "observe/process_usage.h"

namespace anchorage::observe {
namespace {

Labels RoleAnd(std::string_view role, const char* name, std::string_view value) {
  return {{"role", std::string(role)}, {name, std::string(value)}};
}

}  // namespace

Histogram StageDuration(MetricsRegistry& registry, std::string_view role, std::string_view stage) {
  return registry.AddHistogram("anchorage_stage_duration_seconds",
                               "Time that a request spent in one stage.", StageDurationBuckets(),
                               RoleAnd(role, "stage", stage));
}

Gauge QueueDepth(MetricsRegistry& registry, std::string_view role, std::string_view stage) {
  return registry.AddGauge("anchorage_queue_depth", "Requests waiting before a stage.",
                           RoleAnd(role, "stage", stage));
}

Histogram QueueWait(MetricsRegistry& registry, std::string_view role, std::string_view stage) {
  return registry.AddHistogram("anchorage_queue_wait_seconds",
                               "Time that a request waited before a stage.", StageDurationBuckets(),
                               RoleAnd(role, "stage", stage));
}

Gauge PrefillQueuedTokens(MetricsRegistry& registry, std::string_view role) {
  return registry.AddGauge("anchorage_prefill_queued_tokens",
                           "Prompt tokens waiting to be prefilled.", {{"role", std::string(role)}});
}

Histogram InterTokenLatency(MetricsRegistry& registry, std::string_view role,
                            std::string_view model) {
  return registry.AddHistogram("anchorage_inter_token_latency_seconds",
                               "Time between two tokens of a request.", InterTokenBuckets(),
                               RoleAnd(role, "model", model));
}

Histogram TimePerOutputToken(MetricsRegistry& registry, std::string_view role,
                             std::string_view model) {
  return registry.AddHistogram(
      "anchorage_time_per_output_token_seconds",
      "Mean time between two tokens of a request, one observation per request.",
      InterTokenBuckets(), RoleAnd(role, "model", model));
}

Counter AdmissionRejections(MetricsRegistry& registry, std::string_view role,
                            std::string_view reason) {
  return registry.AddCounter("anchorage_admission_rejections_total",
                             "Requests that were refused before any work was done for them.",
                             RoleAnd(role, "reason", reason));
}

void AddProcessMetrics(MetricsRegistry& registry, std::string_view role, const ConfigInfo& config) {
  registry
      .AddGauge("anchorage_build_info", "Always 1; the labels say what runs.",
                {{"role", std::string(role)}, {"version", kVersion}, {"commit", kCommit}})
      .Set(1);
  registry
      .AddGauge("anchorage_config_info", "Always 1; the labels say how it serves.",
                {{"role", std::string(role)},
                 {"kv_mode", config.kv_mode},
                 {"ratio", config.ratio},
                 {"layout_version", config.layout_version},
                 {"transport", config.transport}})
      .Set(1);

  const Counter cpu = registry.AddCounter("process_cpu_seconds_total",
                                          "Total user and system CPU time spent in seconds.");
  const Gauge resident =
      registry.AddGauge("process_resident_memory_bytes", "Resident memory size in bytes.");
  const Gauge virtual_memory =
      registry.AddGauge("process_virtual_memory_bytes", "Virtual memory size in bytes.");
  const Gauge open_fds = registry.AddGauge("process_open_fds", "Number of open file descriptors.");
  const Gauge max_fds =
      registry.AddGauge("process_max_fds", "Maximum number of open file descriptors.");
  const Gauge threads = registry.AddGauge("process_threads", "Number of OS threads.");
  const Gauge start = registry.AddGauge("process_start_time_seconds",
                                        "Start time of the process since unix epoch in seconds.");
  registry.AddCollector([=] {
    const ProcessUsage usage = ReadProcessUsage();
    if (usage.cpu_seconds > cpu.value()) cpu.Add(usage.cpu_seconds - cpu.value());
    resident.Set(static_cast<double>(usage.resident_bytes));
    virtual_memory.Set(static_cast<double>(usage.virtual_bytes));
    open_fds.Set(static_cast<double>(usage.open_fds));
    max_fds.Set(static_cast<double>(usage.max_fds));
    threads.Set(static_cast<double>(usage.threads));
    start.Set(usage.start_seconds);
  });
}

}  // namespace anchorage::observe
