#include "eval/report/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "eval/random.h"

namespace anchorage::eval {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The value below which that share of the sorted values lies, between neighbours linearly.
double Quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// `statistic(indices)` of the sample and of resamples of its indices.
template <typename Statistic>
Interval Bootstrap(size_t size, const BootstrapOptions& options, Statistic statistic) {
  if (size == 0) return {kNan, kNan, kNan};
  std::vector<size_t> indices(size);
  for (size_t i = 0; i < size; ++i) indices[i] = i;
  const double estimate = statistic(indices);
  if (!std::isfinite(estimate)) return {kNan, kNan, kNan};
  Random random(options.seed);
  std::vector<double> values;
  for (int i = 0; i < options.resamples; ++i) {
    for (size_t& index : indices) index = random.Below(size);
    const double value = statistic(indices);
    if (std::isfinite(value)) values.push_back(value);
  }
  if (values.empty()) return {estimate, estimate, estimate};
  std::sort(values.begin(), values.end());
  const double tail = (1 - options.confidence) / 2;
  return {estimate, Quantile(values, tail), Quantile(values, 1 - tail)};
}

}  // namespace

Interval BootstrapMean(std::span<const double> values, const BootstrapOptions& options) {
  return Bootstrap(values.size(), options, [values](const std::vector<size_t>& indices) {
    double sum = 0;
    for (const size_t i : indices) sum += values[i];
    return sum / static_cast<double>(indices.size());
  });
}

Interval BootstrapMeanDifference(std::span<const double> a, std::span<const double> b,
                                 const BootstrapOptions& options) {
  std::vector<double> differences(a.size());
  for (size_t i = 0; i < a.size(); ++i) differences[i] = a[i] - b[i];
  return BootstrapMean(differences, options);
}

Interval BootstrapRatio(std::span<const double> a, std::span<const double> b,
                        const BootstrapOptions& options) {
  return Bootstrap(a.size(), options, [a, b](const std::vector<size_t>& indices) {
    double sum_a = 0;
    double sum_b = 0;
    for (const size_t i : indices) {
      sum_a += a[i];
      sum_b += b[i];
    }
    return sum_b == 0 ? kNan : sum_a / sum_b;
  });
}

Interval BootstrapGeometricRatio(std::span<const double> a, std::span<const double> b,
                                 const BootstrapOptions& options) {
  std::vector<double> logs(a.size());
  for (size_t i = 0; i < a.size(); ++i) logs[i] = std::log(a[i] / b[i]);
  const Interval interval = BootstrapMean(logs, options);
  return {std::exp(interval.estimate), std::exp(interval.low), std::exp(interval.high)};
}

double McNemarExact(int64_t only_a, int64_t only_b) {
  const int64_t total = only_a + only_b;
  if (total == 0) return 1;
  // The lower tail of a fair binomial, in logarithms so that no factor overflows.
  const double n = static_cast<double>(total);
  double tail = 0;
  for (int64_t k = 0; k <= std::min(only_a, only_b); ++k) {
    const double successes = static_cast<double>(k);
    tail += std::exp(std::lgamma(n + 1) - std::lgamma(successes + 1) -
                     std::lgamma(n - successes + 1) - n * std::log(2.0));
  }
  return std::min(1.0, 2 * tail);
}

}  // namespace anchorage::eval
