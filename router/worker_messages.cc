#include "router/worker_messages.h"

namespace anchorage::router {
namespace {

proto::Attempt ToProto(const AttemptId& id, const std::string& log_id) {
  proto::Attempt attempt;
  attempt.set_request(id.request);
  attempt.set_generation(id.generation);
  attempt.set_request_id(log_id);
  return attempt;
}

proto::Attempt AttemptOf(const Request& request) {
  return ToProto(request.attempt(), request.spec().log_id);
}

}  // namespace

proto::Envelope EnqueueMessage(const Request& request, int64_t deadline_ms) {
  const RequestSpec& spec = request.spec();
  proto::Envelope message;
  proto::Enqueue& enqueue = *message.mutable_enqueue();
  *enqueue.mutable_attempt() = AttemptOf(request);
  enqueue.mutable_prompt_ids()->Add(spec.prompt_ids.begin(), spec.prompt_ids.end());
  enqueue.set_max_new(spec.max_new);
  *enqueue.mutable_sampling() = spec.sampling;
  enqueue.set_deadline_ms(deadline_ms);
  return message;
}

proto::Envelope ReserveMessage(const Request& request, const proto::Identity& identity) {
  const RequestSpec& spec = request.spec();
  proto::Envelope message;
  proto::Reserve& reserve = *message.mutable_reserve();
  *reserve.mutable_attempt() = AttemptOf(request);
  reserve.set_prompt_tokens(static_cast<int64_t>(spec.prompt_ids.size()));
  reserve.set_max_new(spec.max_new);
  *reserve.mutable_sampling() = spec.sampling;
  *reserve.mutable_identity() = identity;
  if (spec.sampling.repetition_penalty() != 1) {
    reserve.mutable_prompt_ids()->Add(spec.prompt_ids.begin(), spec.prompt_ids.end());
  }
  return message;
}

proto::Envelope StartPrefillMessage(const Request& request, const proto::Granted* granted) {
  proto::Envelope message;
  proto::StartPrefill& start = *message.mutable_start();
  *start.mutable_attempt() = AttemptOf(request);
  if (granted != nullptr) {
    start.set_nonce(granted->nonce());
    start.set_data_address(granted->data_address());
    start.set_code_packing(granted->code_packing());
  }
  return message;
}

proto::Envelope RenewMessage(const Request& request) {
  proto::Envelope message;
  *message.mutable_renew()->mutable_attempt() = AttemptOf(request);
  return message;
}

proto::Envelope CancelMessage(const AttemptId& attempt, const std::string& log_id) {
  proto::Envelope message;
  *message.mutable_cancel()->mutable_attempt() = ToProto(attempt, log_id);
  return message;
}

AttemptId IdOf(const proto::Attempt& attempt) { return {attempt.request(), attempt.generation()}; }

std::optional<FinishReason> ReasonOf(proto::Finish finish) {
  switch (finish) {
    case proto::FINISH_STOP:
      return FinishReason::kStop;
    case proto::FINISH_LENGTH:
      return FinishReason::kLength;
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> HeadroomOf(const proto::NodeState& state) {
  int64_t free = state.memory_limit_bytes();
  for (const int64_t taken : {state.memory_used_bytes(), state.memory_reserved_bytes(),
                              state.memory_quarantined_bytes()}) {
    if (taken < 0 || taken > free) return std::nullopt;
    free -= taken;
  }
  return free;
}

ApiError ErrorOf(const proto::Ended& ended) {
  const std::string stage = ended.stage().empty() ? "decode" : ended.stage();
  const auto code = static_cast<absl::StatusCode>(ended.status());
  // Only before work began can it be the client's fault; later it means a message between nodes.
  if (code == absl::StatusCode::kInvalidArgument && stage == "queue") {
    return BadRequest("", ended.message());
  }
  switch (code) {
    case absl::StatusCode::kDeadlineExceeded:
      return RequestTimeout(stage);
    case absl::StatusCode::kUnavailable:
      if (stage != "queue") break;
      return NoWorkers("A node of the service is shutting down. Please try again.");
    case absl::StatusCode::kResourceExhausted:
      return NoWorkers("No memory or compute is free for this request. Please try again later.");
    default:
      break;
  }
  return StageFailed(stage, "The request failed in the " + stage + " stage. Please try again.");
}

}  // namespace anchorage::router
