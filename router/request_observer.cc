#include "router/request_observer.h"

#include <utility>

#include "observe/logging.h"

namespace anchorage::router {
namespace {

constexpr double kSecondsPerNs = 1e-9;

double SecondsBetween(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) * kSecondsPerNs;
}

}  // namespace

void RequestObserver::OnPrefillStarted(const Request& request) {
  const double waited = SecondsBetween(request.arrived_ns(), clock_.NowNs());
  metrics_.queue_stage.Observe(waited);
  metrics_.admission_wait.Observe(waited);
}

void RequestObserver::OnPrefillDone(const Request& request) {
  metrics_.prefill_stage.Observe(SecondsBetween(request.prefill_started_ns, clock_.NowNs()));
}

void RequestObserver::OnTokens(const Request& request, int64_t num_new,
                               std::optional<int64_t> previous_ns) {
  if (num_new == 0) return;
  const int64_t now = clock_.NowNs();
  if (!previous_ns) {
    metrics_.time_to_first_token.Observe(SecondsBetween(request.arrived_ns(), now));
    return;
  }
  const double gap = SecondsBetween(*previous_ns, now) / static_cast<double>(num_new);
  for (int64_t i = 0; i < num_new; ++i) metrics_.inter_token_latency.Observe(gap);
}

void RequestObserver::OnEnd(const Request& request, const Outcome& outcome) {
  const int64_t now = clock_.NowNs();
  const Usage usage = request.usage();
  const double seconds = SecondsBetween(request.arrived_ns(), now);
  const char* word = "finished";
  if (outcome.kind == Outcome::Kind::kFailed) word = "failed";
  if (outcome.kind == Outcome::Kind::kCancelled) word = "cancelled";
  observe::LogInfo(request.spec().log_id, "%s in stage %s: %d prompt + %d new tokens, %.3f s%s%s",
                   word, StageName(request.state()), usage.prompt_tokens, usage.completion_tokens,
                   seconds, outcome.error ? ": " : "", outcome.error ? outcome.error->message : "");
  metrics_.request_duration.Observe(seconds);
  if (!request.first_token_ns()) return;
  metrics_.CountTokens(usage.prompt_tokens, usage.completion_tokens);
  metrics_.decode_stage.Observe(SecondsBetween(*request.first_token_ns(), now));
  if (usage.completion_tokens > 1) {
    metrics_.time_per_output_token.Observe(
        SecondsBetween(*request.first_token_ns(), request.last_token_ns()) /
        static_cast<double>(usage.completion_tokens - 1));
  }
}

void RequestObserver::Snapshot(const RequestMap& requests, const Ledger& ledger,
                               const WorkerTable& workers) {
  int64_t depth[3] = {0, 0, 0};  // of kWaiting, kQueued, kReserving
  int64_t queued_tokens = 0;
  int64_t waiting_bytes = 0;
  for (const auto& [id, request] : requests) {
    if (request->state() >= State::kPrefilling) continue;
    ++depth[static_cast<int>(request->state())];
    queued_tokens += static_cast<int64_t>(request->spec().prompt_ids.size());
    waiting_bytes += request->spec().kv_bytes;
  }
  metrics_.in_flight.Set(static_cast<double>(requests.size()));
  metrics_.admission_depth.Set(static_cast<double>(depth[0]));
  metrics_.prefill_depth.Set(static_cast<double>(depth[1]));
  metrics_.decode_depth.Set(static_cast<double>(depth[2]));
  metrics_.prefill_queued_tokens.Set(static_cast<double>(queued_tokens));
  metrics_.waiting_kv_bytes.Set(static_cast<double>(waiting_bytes));
  metrics_.held_kv_bytes.Set(static_cast<double>(ledger.held_bytes()));
  for (const auto& [role, name] :
       {std::pair(proto::ROLE_PREFILL, "prefill"), std::pair(proto::ROLE_DECODE, "decode")}) {
    metrics_.SetWorkers(name, "ready", workers.CountReady(role));
    metrics_.SetWorkers(name, "draining", workers.CountDraining(role));
  }
}

}  // namespace anchorage::router
