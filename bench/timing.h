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

// Of a few times, in seconds; sorts them.
inline Spread SpreadOf(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

// Several works in turn, one of each a round, so that what disturbs the machine disturbs all of
// them alike and their ratios stand. One warm-up each, then at least five rounds and `budget_s` in
// all. `before` runs untimed ahead of each.
template <typename Before, typename Work>
std::vector<Spread> MeasureInTurn(double budget_s, const Before& before,
                                  const std::vector<Work>& works) {
  for (const Work& work : works) work();
  std::vector<std::vector<double>> times(works.size());
  double spent = 0;
  while (spent < budget_s || times.front().size() < 5) {
    for (size_t i = 0; i < works.size(); ++i) {
      before();
      times[i].push_back(Seconds(works[i]));
      spent += times[i].back();
    }
  }
  std::vector<Spread> spreads;
  for (std::vector<double>& some : times) spreads.push_back(SpreadOf(some));
  return spreads;
}

}  // namespace anchorage::bench
