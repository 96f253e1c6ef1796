// How sure a measured difference is: percentile bootstrap (Efron 1979) and McNemar's exact test.
//
// Resamples are drawn from a generator of our own, so that the same numbers and seed give the same
// interval everywhere. Pairs are resampled as pairs. Thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace anchorage::eval {

struct Interval {
  double estimate = 0;  // of the sample itself
  double low = 0;
  double high = 0;
};

struct BootstrapOptions {
  int resamples = 2000;
  double confidence = 0.95;
  uint64_t seed = 0;
};

// Of the mean. Three NaNs when there are no values; a single value is its own interval.
Interval BootstrapMean(std::span<const double> values, const BootstrapOptions& options = {});

// Of the mean of a[i] - b[i]. `b` has as many values as `a`.
Interval BootstrapMeanDifference(std::span<const double> a, std::span<const double> b,
                                 const BootstrapOptions& options = {});

// Of the ratio of sums, sum a / sum b: how much of b is retained. Resamples whose b sums to 0 are
// left out; three NaNs when the sample's own does.
Interval BootstrapRatio(std::span<const double> a, std::span<const double> b,
                        const BootstrapOptions& options = {});

// Of geometric mean(a) / geometric mean(b), all values above 0.
Interval BootstrapGeometricRatio(std::span<const double> a, std::span<const double> b,
                                 const BootstrapOptions& options = {});

// McNemar's exact test of paired answers that are right or wrong: the two-sided probability of a
// split at least as uneven as `only_a` right in a alone and `only_b` right in b alone, were both
// equally good. 1 when there is no discordant pair.
double McNemarExact(int64_t only_a, int64_t only_b);

}  // namespace anchorage::eval
