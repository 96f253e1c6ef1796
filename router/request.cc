#include "router/request.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace anchorage::router {

const char* StageName(State state) {
  switch (state) {
    case State::kWaiting:
    case State::kQueued:
    case State::kReserving:
      return "queue";
    case State::kPrefilling:
      return "prefill";
    case State::kDecoding:
    case State::kDone:
      return "decode";
  }
  return "decode";
}

Request::Request(AttemptId attempt, RequestSpec spec, const text::Tokenizer* tokenizer,
                 std::shared_ptr<ResponseSink> sink, int64_t now_ns)
    : attempt_(attempt),
      spec_(std::move(spec)),
      sink_(std::move(sink)),
      arrived_ns_(now_ns),
      text_(tokenizer, spec_.stop, spec_.show_control) {}

void Request::Advance(State next) {
  if (done()) return;
  // A request that needs no decode memory goes from the queue straight to prefill, and the first
  // token may overtake the word that prefill is done.
  const bool skips_reserving =
      spec_.prefill_only() && state_ == State::kQueued && next == State::kPrefilling;
  if (!skips_reserving && static_cast<int>(next) != static_cast<int>(state_) + 1) {
    std::fprintf(stderr, "request %s: no step from state %d to %d\n", attempt_.ToString().c_str(),
                 static_cast<int>(state_), static_cast<int>(next));
    std::abort();
  }
  state_ = next;
}

Request::Step Request::AcceptTokens(int64_t first_index, std::span<const int32_t> ids,
                                    std::optional<FinishReason> finish, int64_t now_ns) {
  Step step;
  if (done()) return step;
  if (first_index < 0 || first_index > num_tokens_) {
    step.error = StageFailed(StageName(state_), "Tokens of this answer were lost on the way.");
    return step;
  }
  std::string text;
  bool stopped = false;
  const size_t known = std::min(ids.size(), static_cast<size_t>(num_tokens_ - first_index));
  for (size_t i = known; i < ids.size() && !stopped; ++i) {
    if (num_tokens_ == spec_.max_new) {
      step.error = StageFailed(StageName(state_), "A worker made more tokens than it was asked.");
      return step;
    }
    ++num_tokens_;
    ++step.num_new;
    text += text_.Push(ids[i]);
    stopped = text_.stopped();
  }
  if (finish && !stopped) {
    text += text_.Finish();
    stopped = text_.stopped();
    step.finished = true;
    step.finish = stopped ? FinishReason::kStop : *finish;
  } else if (stopped) {
    step.finished = true;
    step.finish = FinishReason::kStop;
    step.by_stop_string = true;
  }
  if (step.num_new > 0) {
    if (!first_token_ns_) first_token_ns_ = now_ns;
    last_token_ns_ = now_ns;
  }
  if (step.num_new > 0 || !text.empty()) {
    sink_->OnTokens(ids.subspan(known, static_cast<size_t>(step.num_new)), text);
  }
  return step;
}

bool Request::End(Outcome outcome) {
  if (done()) return false;
  state_ = State::kDone;
  outcome.usage = usage();
  sink_->OnEnd(outcome);
  return true;
}

Usage Request::usage() const {
  return {static_cast<int64_t>(spec_.prompt_ids.size()), num_tokens_};
}

}  // namespace anchorage::router
