// A request that was understood: everything the workers need, and what its memory will cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv/plan/plan.h"
#include "proto/worker.pb.h"
#include "router/api_error.h"
#include "router/completion_request.h"
#include "router/served_model.h"

namespace anchorage::router {

struct RequestSpec {
  std::string log_id;  // of log lines: the x-request-id, and the trace id where there is one
  std::vector<int32_t> prompt_ids;
  int64_t max_new = 0;
  proto::Sampling sampling;
  std::vector<std::string> stop;
  bool show_control = false;
  int64_t kv_bytes = 0;  // at the decode node; 0 when one token is asked for, which prefill makes

  // Nothing is decoded, so nothing is reserved or shipped.
  bool prefill_only() const { return max_new == 1; }
};

struct SpecLimits {
  kv::PlanOptions plan;
  int64_t default_max_tokens = 1024;
};

// Tokenises and plans. max_tokens is clamped to what the context leaves; only a prompt that fills
// the context by itself is an error. A seed is drawn where none is given.
ApiResult<RequestSpec> BuildSpec(const ServedModel& model, const SpecLimits& limits,
                                 const CompletionRequest& request, std::string log_id);

}  // namespace anchorage::router
