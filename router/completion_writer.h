// Answers in the shapes of the OpenAI API: one JSON object, or chunks of an event stream.
//
// A stream is, in order: for chat a chunk with the role and an empty content; one chunk per piece
// of text; a chunk with the finish reason and no text; on demand a chunk with the usage and no
// choice;
// "[DONE]". Each is one server-sent event. A stream that failed ends with an error event instead,
// and without "[DONE]".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "router/completion_request.h"
#include "router/json.h"
#include "router/response_sink.h"

namespace anchorage::router {

class CompletionWriter {
 public:
  // `id` is unique per answer; `created` in seconds since the Unix epoch.
  CompletionWriter(Endpoint endpoint, std::string id, int64_t created, std::string model,
                   bool include_usage);

  std::string Begin() const;
  std::string Text(std::string_view text) const;
  std::string End(FinishReason reason, const Usage& usage) const;
  static std::string Error(const ApiError& error);
  static std::string KeepAlive();

  // The answer that is not a stream.
  std::string Whole(std::string_view text, FinishReason reason, const Usage& usage) const;

 private:
  Json Head(bool chunk) const;
  Json Choice(std::string_view text, const char* finish_reason) const;

  const Endpoint endpoint_;
  const std::string id_;
  const int64_t created_;
  const std::string model_;
  const bool include_usage_;
};

}  // namespace anchorage::router
