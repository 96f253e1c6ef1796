// Private to transport/data/: what other threads ask of the one that owns the UCX worker.
#pragma once

#include <ucp/api/ucp.h>

#include <functional>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace anchorage::transport {

// Thread-safe, but for Run. May outlive the worker once it is closed.
class UcxCommands {
 public:
  explicit UcxCommands(ucp_worker_h worker) : worker_(worker) {}

  // Queues `command` and wakes the thread. False when closed: then it never runs.
  bool Post(std::function<void()> command) {
    MutexLock lock(mutex_);
    if (closed_) return false;
    Push(std::move(command));
    return true;
  }

  // Queues the last command. False: was closed before.
  bool Close(std::function<void()> last) {
    MutexLock lock(mutex_);
    if (std::exchange(closed_, true)) return false;
    Push(std::move(last));
    return true;
  }

  bool empty() const {
    MutexLock lock(mutex_);
    return commands_.empty();
  }

  // Runs what is queued; on the thread.
  void Run() {
    std::vector<std::function<void()>> batch;
    {
      MutexLock lock(mutex_);
      batch.swap(commands_);
    }
    for (const std::function<void()>& command : batch) command();
  }

 private:
  void Push(std::function<void()> command) REQUIRES(mutex_) {
    commands_.push_back(std::move(command));
    ucp_worker_signal(worker_);
  }

  const ucp_worker_h worker_;
  mutable Mutex mutex_;
  std::vector<std::function<void()>> commands_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace anchorage::transport
