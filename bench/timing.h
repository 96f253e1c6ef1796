// Timing of short functions.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace anchorage::bench {

// Makes the compiler believe that what `data` points at is read.
inline void KeepAlive(const void* data) { asm volatile("" : : "r"(data) : "memory"); }

template <typename Work>
double Seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <typename Work>
double BestSeconds(int trials, const Work& work) {
  double best = Seconds(work);
  for (int i = 1; i < trials; ++i) best = std::min(best, Seconds(work));
  return best;
}

struct Spread {
  double median_s = 0;
  double p99_s = 0;
};

// One warm-up, then repeats `work` for `budget_s`, at least five times. `before` runs untimed ahead
// of each.
template <typename Before, typename Work>
Spread Measure(double budget_s, const Before& before, const Work& work) {
  before();
  work();
  std::vector<double> times;
  double spent = 0;
  while (spent < budget_s || times.size() < 5) {
    before();
    times.push_back(Seconds(work));
    spent += times.back();
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

}  // namespace anchorage::bench
