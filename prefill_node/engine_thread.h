// The thread that owns the prefill engine and runs whatever has been granted.
//
// Short prompts share a batch (core/batching.h). While a long prompt runs, short ones that are
// granted meanwhile do not wait for its end: it is put aside at a layer boundary, where it holds
// only its bridge and finished layers, they pass through all layers, and it goes on. At most one
// batch overtakes at each boundary, so a long prompt always advances.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "prefill_node/core/engine.h"
#include "prefill_node/job.h"

namespace anchorage::prefill {

class EngineThread {
 public:
  // Both run on the engine's thread: when a batch has started, so that fewer wait than before, and
  // once for each job that has started.
  using OnStart = std::function<void()>;
  using OnDone = std::function<void(std::shared_ptr<Job>)>;

  // `engine` must outlive it.
  EngineThread(Engine& engine, OnStart on_start, OnDone on_done);
  ~EngineThread() { Stop(); }

  void Submit(std::shared_ptr<Job> job);

  // Whether something was submitted that has not started yet; whether a short prompt was.
  bool has_waiting() const;
  bool has_waiting_short() const;

  // Finishes what has started, then joins. Jobs that have not started are dropped.
  void Stop();

 private:
  using Jobs = std::vector<std::shared_ptr<Job>>;

  void Run();
  void RunBatch(const Jobs& jobs);
  // Blocks until there is one; empty: the thread is to stop.
  Jobs TakeBatch();
  // What may overtake a long prompt now; never blocks.
  Jobs TakeShortBatch();
  Jobs Take(int64_t max_tokens_each) REQUIRES(mutex_);

  Engine& engine_;
  const OnStart on_start_;
  const OnDone on_done_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Job>> waiting_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace anchorage::prefill
