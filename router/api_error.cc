#include "router/api_error.h"

#include <nlohmann/json.hpp>

#include "router/json.h"

namespace anchorage::router {
namespace {

constexpr int kRetrySeconds = 2;

Json StringOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

ApiError Refusal(int status, std::string type, std::string code, std::string message,
                 ErrorReason reason) {
  ApiError error;
  error.status = status;
  error.type = std::move(type);
  error.code = std::move(code);
  error.message = std::move(message);
  error.reason = reason;
  return error;
}

ApiError InvalidRequest(int status, std::string code, std::string param, std::string message) {
  ApiError error = Refusal(status, "invalid_request_error", std::move(code), std::move(message),
                           ErrorReason::kBadRequest);
  error.param = std::move(param);
  return error;
}

ApiError TryLater(int status, std::string type, std::string code, std::string message,
                  ErrorReason reason) {
  ApiError error = Refusal(status, std::move(type), std::move(code), std::move(message), reason);
  error.retry_after_seconds = kRetrySeconds;
  return error;
}

// What a client sent, cut to a length that is fit to be sent back.
std::string Excerpt(std::string_view text) {
  constexpr size_t kMaxExcerpt = 128;
  if (text.size() <= kMaxExcerpt) return std::string(text);
  return absl::StrFormat("%s...", text.substr(0, kMaxExcerpt));
}

}  // namespace

const char* ErrorReasonName(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kBadRequest:
      return "bad_request";
    case ErrorReason::kContextLength:
      return "context_length";
    case ErrorReason::kAuth:
      return "auth";
    case ErrorReason::kNoCapacity:
      return "no_capacity";
    case ErrorReason::kQueueTimeout:
      return "queue_timeout";
    case ErrorReason::kPrefillFailed:
      return "prefill_failed";
    case ErrorReason::kTransferFailed:
      return "transfer_failed";
    case ErrorReason::kDecodeFailed:
      return "decode_failed";
    case ErrorReason::kInternal:
      return "internal";
  }
  return "internal";
}

std::string ErrorBody(const ApiError& error) {
  Json body = {{"message", error.message},
               {"type", error.type},
               {"param", StringOrNull(error.param)},
               {"code", StringOrNull(error.code)}};
  if (!error.stage.empty()) body["stage"] = error.stage;
  if (error.num_prompt_tokens) body["n_prompt_tokens"] = *error.num_prompt_tokens;
  if (error.context_length) body["n_ctx"] = *error.context_length;
  return Dump(Json{{"error", std::move(body)}});
}

ApiError BadRequest(std::string param, std::string message) {
  return InvalidRequest(400, "", std::move(param), std::move(message));
}

ApiError ContextLengthExceeded(std::string param, int64_t num_prompt_tokens,
                               int64_t context_length) {
  ApiError error = InvalidRequest(
      400, "context_length_exceeded", std::move(param),
      absl::StrFormat("This model's maximum context length is %d tokens. However, your prompt has "
                      "%d tokens, and at least one must be left to generate. Please shorten it.",
                      context_length, num_prompt_tokens));
  error.reason = ErrorReason::kContextLength;
  error.num_prompt_tokens = num_prompt_tokens;
  error.context_length = context_length;
  return error;
}

ApiError NeverFits(int64_t needed_bytes, int64_t limit_bytes) {
  ApiError error = InvalidRequest(
      400, "request_never_fits", "",
      absl::StrFormat("This request needs %d bytes of KV memory, and no decode node has more than "
                      "%d. Please shorten the prompt or lower max_tokens.",
                      needed_bytes, limit_bytes));
  error.reason = ErrorReason::kNoCapacity;
  return error;
}

ApiError InvalidApiKey() {
  return Refusal(401, "invalid_request_error", "invalid_api_key",
                 "Incorrect or missing API key. Send it as 'Authorization: Bearer KEY'.",
                 ErrorReason::kAuth);
}

ApiError ModelNotFound(std::string_view model) {
  return InvalidRequest(404, "model_not_found", "model",
                        absl::StrFormat("The model '%s' does not exist here.", Excerpt(model)));
}

ApiError RouteNotFound(std::string_view method, std::string_view path) {
  return InvalidRequest(404, "unknown_url", "",
                        absl::StrFormat("Unknown request URL: %s %s", method, Excerpt(path)));
}

ApiError MethodNotAllowed(std::string_view method, std::string_view path) {
  return InvalidRequest(
      405, "method_not_allowed", "",
      absl::StrFormat("%s is not allowed for %s.", Excerpt(method), Excerpt(path)));
}

ApiError BodyTooLarge(int64_t limit_bytes) {
  return InvalidRequest(413, "request_too_large", "",
                        absl::StrFormat("The request body is over %d bytes.", limit_bytes));
}

ApiError UnsupportedMediaType(std::string message) {
  return InvalidRequest(415, "unsupported_media_type", "", std::move(message));
}

ApiError QueueFull() {
  return TryLater(429, "rate_limit_error", "rate_limit_exceeded",
                  "Too many requests are waiting. Please try again later.",
                  ErrorReason::kNoCapacity);
}

ApiError QueueTimeout() {
  return TryLater(503, "service_unavailable_error", "no_capacity",
                  "No memory or compute became free in time. Please try again later.",
                  ErrorReason::kQueueTimeout);
}

ApiError NoWorkers(std::string message) {
  return TryLater(503, "service_unavailable_error", "no_capacity", std::move(message),
                  ErrorReason::kNoCapacity);
}

ApiError Draining() {
  return TryLater(503, "service_unavailable_error", "draining",
                  "This server is shutting down. Please try again.", ErrorReason::kNoCapacity);
}

ApiError RequestTimeout(std::string stage) {
  ApiError error = Refusal(504, "timeout_error", "request_timeout",
                           absl::StrFormat("The request took too long (stage: %s).", stage),
                           ErrorReason::kInternal);
  error.stage = std::move(stage);
  return error;
}

ApiError StageFailed(std::string stage, std::string message) {
  ApiError error =
      Refusal(502, "server_error", "worker_failed", std::move(message), ErrorReason::kInternal);
  if (stage == "prefill" || stage == "queue") error.reason = ErrorReason::kPrefillFailed;
  if (stage == "transfer") error.reason = ErrorReason::kTransferFailed;
  if (stage == "decode") error.reason = ErrorReason::kDecodeFailed;
  error.stage = std::move(stage);
  return error;
}

}  // namespace anchorage::router
