// Answers in the shapes of the OpenAI API: one JSON object, or chunks of an event stream.
//
// A stream is, in order: for chat a chunk with the role and an empty content; one chunk per piece
// of text; a chunk with the finish reason and no text; on demand a chunk with the usage and no
// choice; "[DONE]". Each is one server-sent event. A stream that failed ends with an error event
// instead, and without "[DONE]".
//
// With token ids, as vLLM's return_token_ids has them: each choice has `token_ids`, those that came
// since the chunk before, also where there is no text of them; the first chunk and the whole answer
// have `prompt_token_ids`, for chat beside the choices and for text completions in the choice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/completion_request.h"
#include "router/json.h"
#include "router/response_sink.h"

namespace anchorage::router {

struct WriterOptions {
  bool include_usage = false;  // of a stream
  // The prompt's tokens, where the answer is to name its tokens and these.
  std::optional<std::vector<int32_t>> prompt_ids;
};

class CompletionWriter {
 public:
  // `id` is unique per answer; `created` in seconds since the Unix epoch.
  CompletionWriter(Endpoint endpoint, std::string id, int64_t created, std::string model,
                   WriterOptions options);

  std::string Begin() const;
  std::string Tokens(std::span<const int32_t> ids, std::string_view text) const;
  std::string End(FinishReason reason, const Usage& usage) const;
  static std::string Error(const ApiError& error);
  static std::string KeepAlive();

  // The answer that is not a stream.
  std::string Whole(std::span<const int32_t> ids, std::string_view text, FinishReason reason,
                    const Usage& usage) const;

 private:
  Json Head(bool chunk) const;
  Json Choice(std::span<const int32_t> ids, std::string_view text, const char* finish_reason) const;
  void AddPromptIds(Json& body) const;

  const Endpoint endpoint_;
  const std::string id_;
  const int64_t created_;
  const std::string model_;
  const WriterOptions options_;
};

}  // namespace anchorage::router
