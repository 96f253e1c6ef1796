// Reads the bodies of POST /v1/chat/completions, /v1/completions, /tokenize and /detokenize.
//
// Strict about every field that is known: a wrong type, a value out of range or a feature that is
// not served is a 400 that names the field. Unknown fields are ignored, null is the same as absent.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "router/api_error.h"
#include "router/completion_request.h"

namespace anchorage::router {

ApiResult<CompletionRequest> ParseCompletionRequest(Endpoint endpoint, std::string_view body);

// {"prompt"|"content": str} or {"messages": [...]}, "add_special_tokens"|"add_special": bool.
struct TokenizeRequest {
  std::string model;
  std::variant<ChatPrompt, TextPrompt, IdsPrompt> prompt;
  std::optional<bool> add_special_tokens;
};
ApiResult<TokenizeRequest> ParseTokenizeRequest(std::string_view body);

// {"tokens": [int]}
struct DetokenizeRequest {
  std::string model;
  std::vector<int64_t> ids;
};
ApiResult<DetokenizeRequest> ParseDetokenizeRequest(std::string_view body);

}  // namespace anchorage::router
