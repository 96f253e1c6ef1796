// The thread that owns the prefill engine and runs whatever has been granted.
#pragma once

#include <atomic>
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
  // `on_done` runs on the engine's thread, once for each job that was submitted before Stop.
  using OnDone = std::function<void(std::shared_ptr<Job>)>;

  // `engine` must outlive it.
  EngineThread(Engine& engine, OnDone on_done);
  ~EngineThread() { Stop(); }

  void Submit(std::shared_ptr<Job> job);

  // Whether something was submitted that has not started yet.
  bool has_waiting() const;

  // Finishes the batch that runs, then joins. Jobs that have not started are dropped.
  void Stop();

 private:
  void Run();
  std::vector<std::shared_ptr<Job>> TakeBatch();

  Engine& engine_;
  const OnDone on_done_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Job>> waiting_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace anchorage::prefill
