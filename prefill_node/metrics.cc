#include "prefill_node/metrics.h"

#include "common/clock.h"
#include "observe/buckets.h"
#include "observe/shared_metrics.h"

namespace anchorage::prefill {
namespace {

constexpr char kRole[] = "prefill";

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

Metrics::Metrics(observe::MetricsRegistry& registry)
    : queue_wait_(observe::QueueWait(registry, kRole, "prefill")),
      queue_stage_(observe::StageDuration(registry, kRole, "queue")),
      prefill_stage_(observe::StageDuration(registry, kRole, "prefill")),
      compress_stage_(observe::StageDuration(registry, kRole, "compress")),
      transfer_stage_(observe::StageDuration(registry, kRole, "transfer")),
      compress_layer_(registry.AddHistogram(
          "anchorage_kv_codec_duration_seconds", "Time to compress or verify one layer.",
          observe::TransferDurationBuckets(), {{"role", kRole}, {"op", "compress"}})),
      ratio_(registry.AddHistogram("anchorage_kv_compression_ratio",
                                   "Uncompressed bytes over bytes on the wire, per prompt.",
                                   observe::CompressionRatioBuckets())),
      lease_expirations_(registry.AddCounter(
          "anchorage_prefill_kv_lease_expirations_total",
          "Prompts whose granted memory was given away before all layers had come.")) {}

void Metrics::OnTaken(int64_t waited_ns) const {
  queue_wait_.Observe(Seconds(waited_ns));
  queue_stage_.Observe(Seconds(waited_ns));
}

void Metrics::OnPrefilled(const PrefillResult& result, int64_t full_bytes) const {
  int64_t compress_ns = 0;
  for (const LayerTiming& layer : result.layers) {
    compress_layer_.Observe(Seconds(layer.compress_ns));
    compress_ns += layer.compress_ns;
  }
  compress_stage_.Observe(Seconds(compress_ns));
  prefill_stage_.Observe(Seconds(result.total_ns - compress_ns));
  if (result.compressed_bytes > 0) {
    ratio_.Observe(static_cast<double>(full_bytes) / static_cast<double>(result.compressed_bytes));
  }
}

void Metrics::OnShipped(int64_t exposed_ns) const { transfer_stage_.Observe(Seconds(exposed_ns)); }

void Metrics::Watch(observe::MetricsRegistry& registry, const Gauges& gauges,
                    const MemoryAccountant& accountant) {
  const auto depth = observe::QueueDepth(registry, kRole, "prefill");
  const auto tokens = observe::PrefillQueuedTokens(registry, kRole);
  const auto running =
      registry.AddGauge("anchorage_prefill_running_requests",
                        "Prompts that were taken from the queue and are not done.");
  const auto held = registry.AddGauge("anchorage_prefill_kv_held_bytes",
                                      "Finished layers that the decode nodes have not taken yet.");
  const auto last_step =
      registry.AddGauge("anchorage_engine_last_step_timestamp_seconds",
                        "When the engine last showed that it is alive.", {{"role", kRole}});
  std::array<observe::Gauge, kNumComponents> peaks;
  for (size_t i = 0; i < kNumComponents; ++i) {
    peaks[i] = registry.AddGauge("anchorage_prefill_memory_peak_bytes",
                                 "Most bytes held at once since the start, by what for.",
                                 {{"component", ComponentName(static_cast<Component>(i))}});
  }
  registry.AddCollector([=, &gauges, &accountant] {
    depth.Set(static_cast<double>(gauges.queued_prompts));
    tokens.Set(static_cast<double>(gauges.queued_tokens));
    running.Set(static_cast<double>(gauges.running));
    held.Set(static_cast<double>(accountant.live()[Component::kFinishedLayers]));
    const MemoryUse peak = accountant.peak();
    for (size_t i = 0; i < kNumComponents; ++i) {
      peaks[i].Set(static_cast<double>(peak.by_component[i]));
    }
    const Clock& clock = Clock::Real();
    last_step.Set(clock.WallSeconds() - Seconds(clock.NowNs() - gauges.last_step_ns));
  });
}

}  // namespace anchorage::prefill
