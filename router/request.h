// One request on its way, and the rules of its life:
//
//   waiting -> queued -> reserving -> prefilling -> decoding -> done
//   (here)     (prefill's queue)                                (finished | failed | cancelled)
//
// Each state may jump to done; nothing leaves done. No sockets, no clock of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/ids.h"
#include "router/request_spec.h"
#include "router/response_sink.h"
#include "router/text_stream.h"

namespace anchorage::router {

enum class State { kWaiting, kQueued, kReserving, kPrefilling, kDecoding, kDone };

// Where a failure in that state is said to have happened: "queue", "prefill", "decode".
const char* StageName(State state);

using WorkerId = uint64_t;  // 0: none

class Request {
 public:
  Request(AttemptId attempt, RequestSpec spec, const text::Tokenizer* tokenizer,
          std::shared_ptr<ResponseSink> sink, int64_t now_ns);

  const AttemptId& attempt() const { return attempt_; }
  const RequestSpec& spec() const { return spec_; }
  State state() const { return state_; }
  bool done() const { return state_ == State::kDone; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t arrived_ns() const { return arrived_ns_; }
  std::optional<int64_t> first_token_ns() const { return first_token_ns_; }
  int64_t last_token_ns() const { return last_token_ns_; }

  // One step forward. A step that is not the next one is a bug of the caller's and ends the
  // process; a step after done is not taken.
  void Advance(State next);

  // Tokens of the sequence that starts at `first_index`. What is already known is ignored, as is
  // everything after the end. Hands the text to the sink and tells what follows.
  struct Step {
    int64_t num_new = 0;
    bool finished = false;                      // the caller ends the request with `finish`
    FinishReason finish = FinishReason::kStop;  //
    bool by_stop_string = false;                // the worker does not know that it is over
    std::optional<ApiError> error;              // a gap, or more than was asked for
  };
  Step AcceptTokens(int64_t first_index, std::span<const int32_t> ids,
                    std::optional<FinishReason> finish, int64_t now_ns);

  // Into the terminal state. False when it was already reached: then nothing happens.
  bool End(Outcome outcome);

  Usage usage() const;

  // Which workers the attempt was given to, and may still hold it.
  WorkerId prefill = 0;
  WorkerId decode = 0;
  int64_t prefill_started_ns = 0;
  int64_t lease_ms = 0;    // of the memory that decode granted; 0: none
  int64_t renewed_ns = 0;  // when that lease last began

 private:
  const AttemptId attempt_;
  const RequestSpec spec_;
  const std::shared_ptr<ResponseSink> sink_;
  const int64_t arrived_ns_;
  TextStream text_;
  State state_ = State::kWaiting;
  int64_t num_tokens_ = 0;
  std::optional<int64_t> first_token_ns_;
  int64_t last_token_ns_ = 0;
};

using RequestMap = std::map<uint64_t, std::unique_ptr<Request>>;  // by AttemptId::request

}  // namespace anchorage::router
