// A thread that checks landed layers, so that neither the data plane nor the control channel waits
// for a checksum.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "common/mutex.h"

namespace anchorage::decode {

// Runs what is submitted, in order. Thread-safe.
class Verifier {
 public:
  Verifier() : thread_([this] { Run(); }) {}
  ~Verifier() { Stop(); }

  void Submit(std::function<void()> check);

  // Runs what was submitted, then joins. Later submissions run on the caller's thread.
  void Stop();

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> checks_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace anchorage::decode
