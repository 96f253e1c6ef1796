// What probes learn of the router, from a thread of their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace anchorage::router {

// Thread-safe. `clock` must outlive it.
class Health {
 public:
  explicit Health(const Clock* clock) : clock_(*clock), last_beat_ns_(clock->NowNs()) {}

  // The io thread is at work.
  void Beat() { last_beat_ns_ = clock_.NowNs(); }
  void SetReady(absl::Status ready) {
    MutexLock lock(mutex_);
    ready_ = std::move(ready);
  }

  absl::Status Ready() const {
    MutexLock lock(mutex_);
    return ready_;
  }
  // Unavailable: the last beat is half a minute old.
  absl::Status Live() const;

 private:
  const Clock& clock_;
  std::atomic<int64_t> last_beat_ns_;
  mutable Mutex mutex_;
  absl::Status ready_ GUARDED_BY(mutex_);
};

}  // namespace anchorage::router
