// The router's metrics. Labels come from configuration and fixed lists, never from clients.
#pragma once

#include <string>

#include "observe/metrics.h"
#include "router/api_error.h"

namespace anchorage::router {

class RouterMetrics {
 public:
  // `model`: the served name, the label of everything that is counted per model.
  RouterMetrics(observe::MetricsRegistry* registry, std::string model);

  // One finished HTTP request; code 499 for a client that left.
  void CountRequest(const char* endpoint, int code, bool known_model);
  void CountError(ErrorReason reason);
  void CountDisconnect(const char* stage);
  void CountRejection(const char* reason);  // headroom queue_full draining
  void CountDecision(const char* decision, const char* reason);
  void CountTokens(int64_t prompt_tokens, int64_t generation_tokens);
  void SetWorkers(const char* role, const char* state, int64_t count);

  observe::Gauge in_flight;
  observe::Gauge admission_depth;        // waiting here
  observe::Gauge prefill_depth;          // given to a prefill queue, not yet taken
  observe::Gauge decode_depth;           // taken, waiting for memory
  observe::Histogram admission_wait;     // arrival until memory is granted
  observe::Gauge prefill_queued_tokens;  // prompt tokens of all that wait, here and there
  observe::Gauge waiting_kv_bytes;
  observe::Gauge held_kv_bytes;
  observe::Histogram time_to_first_token;
  observe::Histogram inter_token_latency;
  observe::Histogram time_per_output_token;
  observe::Histogram request_duration;
  observe::Histogram tokenize_stage;
  observe::Histogram queue_stage;
  observe::Histogram prefill_stage;
  observe::Histogram decode_stage;

 private:
  observe::Counter Errors(ErrorReason reason);
  observe::Counter Disconnects(const char* stage);

  observe::MetricsRegistry& registry_;
  const std::string model_;
  observe::Counter prompt_tokens_;
  observe::Counter generation_tokens_;
  observe::Histogram request_prompt_tokens_;
  observe::Histogram request_generation_tokens_;
};

}  // namespace anchorage::router
