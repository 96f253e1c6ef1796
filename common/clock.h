// Time as a dependency, so that deadlines and leases can be tested without waiting.
#pragma once

#include <atomic>
#include <cstdint>

namespace anchorage {

// Monotonic and wall time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;       // monotonic
  virtual double WallSeconds() const = 0;  // since the Unix epoch

  // The process's real clock.
  static const Clock& Real();
};

// A clock that moves only when told to.
class FakeClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_.load(); }
  double WallSeconds() const override { return 1.7e9 + static_cast<double>(now_ns_.load()) * 1e-9; }
  void AdvanceNs(int64_t ns) { now_ns_ += ns; }

 private:
  std::atomic<int64_t> now_ns_{1};
};

}  // namespace anchorage
