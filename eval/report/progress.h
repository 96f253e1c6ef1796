// How far a long measurement is: one line on standard error that is written over, with the time
// that is left; where standard error is no terminal, a line of its own now and then.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "common/clock.h"

namespace anchorage::eval {

// "eval [#####---------------] 25 %, 1m40s gone, 5m00s left, DETAIL". `done` and `skipped` are
// shares of the whole, in [0, 1] together: work done in that time, and before it in no time.
std::string ProgressLine(const std::string& label, double done, double skipped, double seconds_gone,
                         const std::string& detail);

// "45s", "1m40s", "2h05m".
std::string ShortDuration(double seconds);

// One thread. Clears its line at the end of its life.
class Progress {
 public:
  // `total`: work in any unit that takes about as long each, such as tokens. `clock` must outlive
  // it; `out` is standard error but in tests.
  Progress(std::string label, int64_t total, const Clock& clock = Clock::Real(),
           std::FILE* out = stderr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // So much work is done on top of what was. `detail`: what comes next.
  void Advance(int64_t work, const std::string& detail = "");

  // So much of the total was done before, and takes no time now.
  void Skip(int64_t work) { skipped_ += work; }

 private:
  static constexpr double kSecondsBetweenLines = 30;  // where there is no terminal

  const std::string label_;
  const int64_t total_;  // skipped work included
  const Clock& clock_;
  std::FILE* const out_;
  const bool terminal_;
  const int64_t begin_ns_;
  int64_t last_line_ns_;
  int64_t done_ = 0;
  int64_t skipped_ = 0;
};

}  // namespace anchorage::eval
