// Where a request's answer goes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "router/api_error.h"

namespace anchorage::router {

enum class FinishReason { kStop, kLength };

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;  // up to the one that ended the text, and none after it
};

// The one terminal state of a request: finished, failed or cancelled.
struct Outcome {
  enum class Kind { kFinished, kFailed, kCancelled };
  Kind kind = Kind::kFinished;
  FinishReason finish = FinishReason::kStop;  // when finished
  std::optional<ApiError> error;              // when failed
  Usage usage;
};

// Called on the io thread.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  // `ids` came, one or more but for a last call that only shows what was held back; `text` is what
  // may be shown now, perhaps nothing yet. All ids are counted in the usage, also those whose text
  // a stop string swallowed.
  virtual void OnTokens(std::span<const int32_t> ids, std::string_view text) = 0;
  // Exactly once, and the last call.
  virtual void OnEnd(const Outcome& outcome) = 0;
};

}  // namespace anchorage::router
