#include "decode_node/verifier.h"

#include <utility>

namespace anchorage::decode {

void Verifier::Submit(std::function<void()> check) {
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      checks_.push_back(std::move(check));
      changed_.NotifyOne();
      return;
    }
  }
  check();
}

void Verifier::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Verifier::Run() {
  for (;;) {
    std::function<void()> check;
    {
      MutexLock lock(mutex_);
      while (checks_.empty() && !stopping_) changed_.Wait(mutex_);
      if (checks_.empty()) return;
      check = std::move(checks_.front());
      checks_.pop_front();
    }
    check();
  }
}

}  // namespace anchorage::decode
