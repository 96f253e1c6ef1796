#include "decode_node/metrics.h"

#include <algorithm>

#include "common/clock.h"
#include "observe/buckets.h"
#include "observe/shared_metrics.h"

namespace anchorage::decode {

namespace {
constexpr char kRole[] = "decode";
}  // namespace

Metrics::Metrics(observe::MetricsRegistry& registry, const std::string& model_name)
    : queue_wait_(observe::QueueWait(registry, kRole, "decode")),
      batch_size_(registry.AddHistogram("anchorage_decode_batch_size",
                                        "Sequences that took part in a decode step.",
                                        observe::BatchSizeBuckets())),
      step_(observe::StageDuration(registry, kRole, "decode")),
      inter_token_(observe::InterTokenLatency(registry, kRole, model_name)),
      per_output_token_(observe::TimePerOutputToken(registry, kRole, model_name)),
      verify_(registry.AddHistogram(
          "anchorage_kv_codec_duration_seconds", "Time to compress or verify one layer.",
          observe::TransferDurationBuckets(), {{"role", kRole}, {"op", "verify"}})),
      tokens_(registry.AddCounter("anchorage_decode_tokens_total",
                                  "Tokens that the decode steps produced.",
                                  {{"model", model_name}})),
      headroom_(observe::AdmissionRejections(registry, kRole, "headroom")),
      draining_(observe::AdmissionRejections(registry, kRole, "draining")) {}

void Metrics::OnStep(int64_t batch_size, int64_t duration_ns) const {
  batch_size_.Observe(static_cast<double>(batch_size));
  step_.Observe(static_cast<double>(duration_ns) * 1e-9);
}

void Metrics::Watch(observe::MetricsRegistry& registry, const Engine& engine) {
  const auto limit =
      registry.AddGauge("anchorage_decode_memory_limit_bytes", "KV memory that this node may use.");
  const auto prompt = registry.AddGauge("anchorage_decode_memory_used_bytes",
                                        "KV memory that holds tokens.", {{"component", "kv"}});
  const auto quarantined_used =
      registry.AddGauge("anchorage_decode_memory_used_bytes", "KV memory that holds tokens.",
                        {{"component", "quarantine"}});
  const auto reserved =
      registry.AddGauge("anchorage_decode_memory_reserved_bytes",
                        "KV memory that was granted and holds nothing yet: layers on their way and "
                        "growth to the requests' limits.");
  const auto headroom =
      registry.AddGauge("anchorage_decode_memory_headroom_bytes", "limit - used - reserved.");
  const auto usage_ratio =
      registry.AddGauge("anchorage_decode_kv_usage_ratio", "(used + reserved) / limit, 0 to 1.");
  const auto quarantined =
      registry.AddGauge("anchorage_quarantined_bytes",
                        "Memory of ended requests that a transfer may still write to.");
  const auto active =
      registry.AddGauge("anchorage_decode_active_sequences", "Sequences in the decode batch.");
  const auto capacity =
      registry.AddGauge("anchorage_decode_sequence_capacity",
                        "Sequences that would fit at the mean size of those that are here.");
  const auto waiting = registry.AddGauge("anchorage_decode_waiting_requests",
                                         "Granted requests whose KV has not all arrived.");
  const auto queue = observe::QueueDepth(registry, kRole, "transfer");
  const auto last_step =
      registry.AddGauge("anchorage_engine_last_step_timestamp_seconds",
                        "When the engine last showed that it is alive.", {{"role", kRole}});
  registry.AddCollector([=, &engine] {
    const ArenaUsage usage = engine.usage();
    const auto bytes = [](int64_t value) { return static_cast<double>(value); };
    limit.Set(bytes(usage.limit_bytes));
    prompt.Set(bytes(usage.used_bytes));
    quarantined_used.Set(bytes(usage.quarantined_bytes));
    reserved.Set(bytes(usage.reserved_bytes));
    headroom.Set(bytes(usage.headroom_bytes()));
    usage_ratio.Set(1 - bytes(usage.headroom_bytes()) / bytes(usage.limit_bytes));
    quarantined.Set(bytes(usage.quarantined_bytes));
    active.Set(bytes(engine.active_sequences()));
    capacity.Set(bytes(engine.sequence_capacity()));
    waiting.Set(bytes(engine.landings()));
    queue.Set(bytes(engine.landings()));
    const Clock& clock = Clock::Real();
    last_step.Set(clock.WallSeconds() -
                  static_cast<double>(clock.NowNs() - engine.last_step_ns()) * 1e-9);
  });
}

}  // namespace anchorage::decode
