#include "router/request_spec.h"

#include <algorithm>

#include "common/ids.h"

namespace anchorage::router {
namespace {

std::optional<ApiError> CheckIds(const ServedModel& model, const SamplingRequest& sampling) {
  const auto outside = [&](const char* param, int64_t id) {
    return BadRequest(param, absl::StrFormat("Token id %d is outside the vocabulary of %d.", id,
                                             model.tokenizer().vocab_size()));
  };
  for (const auto& [id, bias] : sampling.logit_bias) {
    if (!model.IsToken(id)) return outside("logit_bias", id);
  }
  for (const int64_t id : sampling.stop_token_ids) {
    if (!model.IsToken(id)) return outside("stop_token_ids", id);
  }
  return std::nullopt;
}

proto::Sampling ToProto(const SamplingRequest& request) {
  proto::Sampling sampling;
  sampling.set_temperature(static_cast<float>(request.temperature));
  sampling.set_top_k(static_cast<int32_t>(request.top_k));
  sampling.set_top_p(static_cast<float>(request.top_p));
  sampling.set_min_p(static_cast<float>(request.min_p));
  sampling.set_repetition_penalty(static_cast<float>(request.repetition_penalty));
  sampling.set_presence_penalty(static_cast<float>(request.presence_penalty));
  sampling.set_frequency_penalty(static_cast<float>(request.frequency_penalty));
  for (const auto& [id, bias] : request.logit_bias) {
    (*sampling.mutable_logit_bias())[static_cast<int32_t>(id)] = static_cast<float>(bias);
  }
  sampling.set_seed(request.seed ? static_cast<uint64_t>(*request.seed) : RandomU64());
  sampling.set_min_tokens(static_cast<int32_t>(request.min_tokens));
  sampling.set_ignore_eos(request.ignore_eos);
  for (const int64_t id : request.stop_token_ids) {
    sampling.add_stop_ids(static_cast<int32_t>(id));
  }
  return sampling;
}

}  // namespace

ApiResult<RequestSpec> BuildSpec(const ServedModel& model, const SpecLimits& limits,
                                 const CompletionRequest& request, std::string log_id) {
  if (auto error = CheckIds(model, request.sampling)) return *std::move(error);
  const int64_t min_tokens = request.sampling.min_tokens;
  if (request.max_tokens && min_tokens > *request.max_tokens) {
    return BadRequest("min_tokens", "'min_tokens' must not be above 'max_tokens'.");
  }
  ApiResult<std::vector<int32_t>> ids = model.Tokenize(request.prompt, request.add_special_tokens);
  if (!ids.ok()) return ids.error();
  const int64_t num_prompt = static_cast<int64_t>(ids->size());
  const int64_t room = model.context_length() - num_prompt;
  if (room < 1) {
    return ContextLengthExceeded(PromptField(request.prompt), num_prompt, model.context_length());
  }
  RequestSpec spec;
  spec.log_id = std::move(log_id);
  spec.prompt_ids = *std::move(ids);
  spec.max_new = std::min(request.max_tokens.value_or(limits.default_max_tokens), room);
  spec.sampling = ToProto(request.sampling);
  spec.stop = request.stop;
  spec.show_control = !request.skip_special_tokens;
  const std::string problem =
      kv::CheckPlan(model.geometry(), limits.plan, num_prompt, spec.max_new);
  if (!problem.empty()) return BadRequest(PromptField(request.prompt), problem);
  if (!spec.prefill_only()) {
    spec.kv_bytes = kv::PlanRequest(model.geometry(), limits.plan, num_prompt, spec.max_new).bytes;
  }
  return spec;
}

}  // namespace anchorage::router
