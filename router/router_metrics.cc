#include "router/router_metrics.h"

#include "observe/buckets.h"
#include "observe/shared_metrics.h"

namespace anchorage::router {
namespace {

constexpr char kRole[] = "router";

}  // namespace

RouterMetrics::RouterMetrics(observe::MetricsRegistry* registry, std::string model)
    : registry_(*registry), model_(std::move(model)) {
  const observe::Labels by_model = {{"model", model_}};
  in_flight = registry_.AddGauge("anchorage_requests_in_flight",
                                 "Completion requests that are being served.", by_model);
  admission_depth = observe::QueueDepth(registry_, kRole, "admission");
  prefill_depth = observe::QueueDepth(registry_, kRole, "prefill");
  decode_depth = observe::QueueDepth(registry_, kRole, "decode");
  admission_wait = observe::QueueWait(registry_, kRole, "admission");
  prefill_queued_tokens = observe::PrefillQueuedTokens(registry_, kRole);
  waiting_kv_bytes = registry_.AddGauge("anchorage_router_waiting_kv_bytes",
                                        "KV bytes that the waiting requests will need.");
  held_kv_bytes =
      registry_.AddGauge("anchorage_router_held_kv_bytes",
                         "KV bytes reserved or granted at decode nodes for this router.");
  time_to_first_token = registry_.AddHistogram("anchorage_time_to_first_token_seconds",
                                               "Time from a request's arrival to its first token.",
                                               observe::TimeToFirstTokenBuckets(), by_model);
  inter_token_latency = observe::InterTokenLatency(registry_, kRole, model_);
  time_per_output_token = observe::TimePerOutputToken(registry_, kRole, model_);
  request_duration = registry_.AddHistogram("anchorage_request_duration_seconds",
                                            "Time from a request's arrival to its end.",
                                            observe::RequestDurationBuckets(), by_model);
  tokenize_stage = observe::StageDuration(registry_, kRole, "tokenize");
  queue_stage = observe::StageDuration(registry_, kRole, "queue");
  prefill_stage = observe::StageDuration(registry_, kRole, "prefill");
  decode_stage = observe::StageDuration(registry_, kRole, "decode");
  prompt_tokens_ = registry_.AddCounter("anchorage_prompt_tokens_total",
                                        "Prompt tokens of finished requests.", by_model);
  generation_tokens_ = registry_.AddCounter("anchorage_generation_tokens_total",
                                            "Tokens generated for requests that ended.", by_model);
  request_prompt_tokens_ =
      registry_.AddHistogram("anchorage_request_prompt_tokens", "Prompt tokens per request.",
                             observe::TokenCountBuckets(), by_model);
  request_generation_tokens_ =
      registry_.AddHistogram("anchorage_request_generation_tokens", "Generated tokens per request.",
                             observe::TokenCountBuckets(), by_model);
  for (const ErrorReason reason :
       {ErrorReason::kBadRequest, ErrorReason::kContextLength, ErrorReason::kAuth,
        ErrorReason::kNoCapacity, ErrorReason::kQueueTimeout, ErrorReason::kPrefillFailed,
        ErrorReason::kTransferFailed, ErrorReason::kDecodeFailed, ErrorReason::kInternal}) {
    Errors(reason);
  }
  for (const char* stage : {"queue", "prefill", "decode", "response"}) Disconnects(stage);
  for (const char* reason : {"headroom", "queue_full", "draining"}) {
    observe::AdmissionRejections(registry_, kRole, reason);
  }
  for (const char* role : {"prefill", "decode"}) {
    for (const char* state : {"ready", "draining", "down"}) SetWorkers(role, state, 0);
  }
}

void RouterMetrics::CountRequest(const char* endpoint, int code, bool known_model) {
  registry_
      .AddCounter("anchorage_requests_total", "Finished HTTP requests.",
                  {{"endpoint", endpoint},
                   {"code", std::to_string(code)},
                   {"model", known_model ? model_ : "other"}})
      .Add();
}

observe::Counter RouterMetrics::Errors(ErrorReason reason) {
  return registry_.AddCounter("anchorage_request_errors_total", "Failed requests, also after 200.",
                              {{"reason", ErrorReasonName(reason)}});
}

observe::Counter RouterMetrics::Disconnects(const char* stage) {
  return registry_.AddCounter("anchorage_client_disconnects_total",
                              "Clients that left before their answer was complete.",
                              {{"stage", stage}});
}

void RouterMetrics::CountError(ErrorReason reason) { Errors(reason).Add(); }
void RouterMetrics::CountDisconnect(const char* stage) { Disconnects(stage).Add(); }

void RouterMetrics::CountRejection(const char* reason) {
  observe::AdmissionRejections(registry_, kRole, reason).Add();
}

void RouterMetrics::CountDecision(const char* decision, const char* reason) {
  registry_
      .AddCounter("anchorage_routing_decisions_total", "What became of requests at admission.",
                  {{"decision", decision}, {"reason", reason}})
      .Add();
}

void RouterMetrics::CountTokens(int64_t prompt_tokens, int64_t generation_tokens) {
  prompt_tokens_.Add(static_cast<double>(prompt_tokens));
  generation_tokens_.Add(static_cast<double>(generation_tokens));
  request_prompt_tokens_.Observe(static_cast<double>(prompt_tokens));
  request_generation_tokens_.Observe(static_cast<double>(generation_tokens));
}

void RouterMetrics::SetWorkers(const char* role, const char* state, int64_t count) {
  registry_
      .AddGauge("anchorage_workers", "Workers that this router knows.",
                {{"role", role}, {"state", state}})
      .Set(static_cast<double>(count));
}

}  // namespace anchorage::router
