// What goes wrong with a request, in the shape the OpenAI clients know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"

namespace anchorage::router {

// Why a request failed, as anchorage_request_errors_total counts it.
enum class ErrorReason {
  kBadRequest,
  kContextLength,
  kAuth,
  kNoCapacity,
  kQueueTimeout,
  kPrefillFailed,
  kTransferFailed,
  kDecodeFailed,
  kInternal,
};
const char* ErrorReasonName(ErrorReason reason);

struct ApiError {
  int status = 500;  // of HTTP
  std::string type = "server_error";
  std::string code;     // "": null
  std::string param;    // "": null
  std::string message;  // for people; echoes no internals
  ErrorReason reason = ErrorReason::kInternal;
  int retry_after_seconds = 0;  // 0: no Retry-After
  std::string stage;            // where it failed, once work had begun; "": before
  // Of a prompt that is too long: clients trim by them.
  std::optional<int64_t> num_prompt_tokens;
  std::optional<int64_t> context_length;
};

// {"error":{"message","type","param","code",...}}
std::string ErrorBody(const ApiError& error);

// The rows of the error table.
ApiError BadRequest(std::string param, std::string message);
ApiError ContextLengthExceeded(std::string param, int64_t num_prompt_tokens,
                               int64_t context_length);
ApiError NeverFits(int64_t needed_bytes, int64_t limit_bytes);
ApiError InvalidApiKey();
ApiError ModelNotFound(std::string_view model);
ApiError RouteNotFound(std::string_view method, std::string_view path);
ApiError MethodNotAllowed(std::string_view method, std::string_view path);
ApiError BodyTooLarge(int64_t limit_bytes);
ApiError UnsupportedMediaType(std::string message);
ApiError QueueFull();
ApiError QueueTimeout();
ApiError NoWorkers(std::string message);
ApiError Draining();
ApiError RequestTimeout(std::string stage);
// A worker failed or was lost while it had the request.
ApiError StageFailed(std::string stage, std::string message);

// A value or the error that is sent instead.
template <typename T>
class ApiResult {
 public:
  ApiResult(T value) : result_(std::move(value)) {}         // NOLINT: implicit on purpose
  ApiResult(ApiError error) : result_(std::move(error)) {}  // NOLINT: implicit on purpose
  bool ok() const { return std::holds_alternative<T>(result_); }
  T& operator*() { return std::get<T>(result_); }
  const T& operator*() const { return std::get<T>(result_); }
  T* operator->() { return &std::get<T>(result_); }
  const T* operator->() const { return &std::get<T>(result_); }
  const ApiError& error() const { return std::get<ApiError>(result_); }

 private:
  std::variant<T, ApiError> result_;
};

}  // namespace anchorage::router
