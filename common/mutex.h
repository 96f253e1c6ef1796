// std::mutex with clang's thread-safety annotations. (absl::Mutex in Debian is not instrumented and
// gives ThreadSanitizer false races.)
#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"  // GUARDED_BY

#if defined(__clang__)
#define ANCHORAGE_TSA(x) __attribute__((x))
#else
#define ANCHORAGE_TSA(x)
#endif
#define REQUIRES(...) ANCHORAGE_TSA(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) ANCHORAGE_TSA(locks_excluded(__VA_ARGS__))

namespace anchorage {

class ANCHORAGE_TSA(capability("mutex")) Mutex {
 public:
  void Lock() ANCHORAGE_TSA(acquire_capability()) { mutex_.lock(); }
  void Unlock() ANCHORAGE_TSA(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ANCHORAGE_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ANCHORAGE_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ANCHORAGE_TSA(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Wait in a loop on the condition; the mutex is held before and after.
class CondVar {
 public:
  void Wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False when `timeout` passed without a wake-up.
  template <typename Duration>
  bool WaitFor(Mutex& mutex, Duration timeout) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool woken = condition_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace anchorage
