// An engine behind the HTTP front that does what the test says.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/mutex.h"
#include "common/status.h"
#include "router/engine.h"
#include "transport/event_loop.h"

namespace anchorage::router {

// Lives on the loop's thread but for the atomics.
class ScriptedEngine : public Engine {
 public:
  enum class Mode { kAnswer, kHold, kRefuse, kFailAtOnce, kFailAfterText };

  explicit ScriptedEngine(transport::EventLoop* loop) : loop_(*loop) {}

  ApiResult<uint64_t> Submit(RequestSpec spec, std::shared_ptr<ResponseSink> sink) override {
    if (mode == Mode::kRefuse) return QueueFull();
    ++submitted;
    const int64_t num_prompt = static_cast<int64_t>(spec.prompt_ids.size());
    {
      MutexLock lock(mutex);
      log_id = spec.log_id;
    }
    held_ = sink;
    if (mode != Mode::kHold) {
      loop_.Post([this, sink, num_prompt, mode = mode.load()] { Answer(*sink, num_prompt, mode); });
    }
    return uint64_t{17};
  }
  const char* Cancel(uint64_t) override {
    if (held_ == nullptr) return "";
    ++cancelled;
    Outcome outcome;
    outcome.kind = Outcome::Kind::kCancelled;
    std::exchange(held_, nullptr)->OnEnd(outcome);
    return "decode";
  }
  absl::Status Ready() const override {
    return ready ? absl::OkStatus() : Unavailable("no decode node is ready");
  }

  // On the loop's thread.
  bool Say(std::string_view text) {
    if (held_ == nullptr) return false;
    held_->OnTokens(kOneId, text);
    return true;
  }
  void FinishHeld() {
    if (held_ != nullptr) std::exchange(held_, nullptr)->OnEnd(Outcome());
  }

  std::atomic<Mode> mode{Mode::kAnswer};
  std::atomic<bool> ready{true};
  std::atomic<int> submitted{0};
  std::atomic<int> cancelled{0};
  Mutex mutex;
  std::string log_id GUARDED_BY(mutex);

 private:
  static constexpr std::array<int32_t, 1> kOneId = {300};

  void Answer(ResponseSink& sink, int64_t num_prompt, Mode mode) {
    Outcome outcome;
    outcome.usage = {num_prompt, 2};
    if (mode != Mode::kFailAtOnce) {
      sink.OnTokens(kOneId, "Hello");
      sink.OnTokens(kOneId, " wörld");
    }
    if (mode != Mode::kAnswer) {
      outcome.kind = Outcome::Kind::kFailed;
      outcome.error = StageFailed("decode", "The decode node was lost.");
    }
    held_ = nullptr;
    sink.OnEnd(outcome);
  }

  transport::EventLoop& loop_;
  std::shared_ptr<ResponseSink> held_;
};

}  // namespace anchorage::router
