// Knows how much work is still running, so that shutdown can wait for all of it (the gate of
// seastar and the async scope of folly, without an executor of its own).
//
//   TaskGroup group;
//   auto token = group.Enter();       // empty once the group is closed
//   ... move `token` into the task; it leaves the group when destroyed ...
//   group.Close([] { ... });          // runs when the last token is gone
#pragma once

#include <functional>
#include <memory>

#include "common/mutex.h"

namespace anchorage {

// Thread-safe. Must outlive nothing: tokens keep the shared state alive.
class TaskGroup {
 public:
  class Token;

  TaskGroup() : state_(std::make_shared<State>()) {}

  // A token that counts as one running task, or an empty one when the group is closed.
  Token Enter();

  // Refuses new tasks; `done` runs once, on the thread of the last leaver, or at once when the
  // group is already empty. Call once.
  void Close(std::function<void()> done);

  int running() const;

 private:
  struct State {
    mutable Mutex mutex;
    int running GUARDED_BY(mutex) = 0;
    bool closed GUARDED_BY(mutex) = false;
    std::function<void()> done GUARDED_BY(mutex);
  };
  std::shared_ptr<State> state_;
};

// Move-only; leaving happens in the destructor.
class TaskGroup::Token {
 public:
  Token() = default;
  Token(Token&&) noexcept = default;
  Token& operator=(Token&& other) noexcept;
  ~Token() { Leave(); }
  explicit operator bool() const { return state_ != nullptr; }

 private:
  friend class TaskGroup;
  explicit Token(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void Leave();
  std::shared_ptr<State> state_;
};

inline TaskGroup::Token& TaskGroup::Token::operator=(Token&& other) noexcept {
  Leave();
  state_ = std::move(other.state_);
  return *this;
}

inline void TaskGroup::Token::Leave() {
  if (state_ == nullptr) return;
  std::function<void()> done;
  {
    MutexLock lock(state_->mutex);
    if (--state_->running == 0 && state_->closed) done = std::move(state_->done);
  }
  state_.reset();
  if (done) done();
}

inline TaskGroup::Token TaskGroup::Enter() {
  MutexLock lock(state_->mutex);
  if (state_->closed) return Token();
  ++state_->running;
  return Token(state_);
}

inline void TaskGroup::Close(std::function<void()> done) {
  {
    MutexLock lock(state_->mutex);
    state_->closed = true;
    if (state_->running > 0) {
      state_->done = std::move(done);
      return;
    }
  }
  if (done) done();
}

inline int TaskGroup::running() const {
  MutexLock lock(state_->mutex);
  return state_->running;
}

}  // namespace anchorage
