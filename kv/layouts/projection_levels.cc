#include "kv/layouts/projection_levels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace anchorage::kv {
namespace {

constexpr int kLevels = kernels::kNumProjectionLevels;
constexpr int kBins = 2048;
constexpr int kIterations = 24;

// Calls visit(value) for each position that is not skipped.
template <typename Visit>
void ForEachCounted(std::span<const float> proj, std::span<const uint32_t> skip,
                    const Visit& visit) {
  size_t next = 0;
  for (size_t i = 0; i < proj.size(); ++i) {
    if (next < skip.size() && skip[next] == i) {
      ++next;
    } else {
      visit(proj[i]);
    }
  }
}

// How many values fall into equal intervals of their range, and what they add up to.
struct Histogram {
  double low = 0;
  double width = 0;  // of a bin; 0: all values are equal, or there are none
  double count = 0;
  std::vector<double> counts = std::vector<double>(kBins);
  std::vector<double> sums = std::vector<double>(kBins);
};

Histogram Count(std::span<const float> proj, std::span<const uint32_t> skip) {
  float low = std::numeric_limits<float>::max();
  float high = std::numeric_limits<float>::lowest();
  Histogram histogram;
  ForEachCounted(proj, skip, [&](float value) {
    low = std::min(low, value);
    high = std::max(high, value);
    histogram.count += 1;
  });
  if (histogram.count == 0) return histogram;
  histogram.low = low;
  histogram.width = (double{high} - double{low}) / kBins;
  if (histogram.width == 0) return histogram;
  ForEachCounted(proj, skip, [&](float value) {
    const double bin = std::min((value - histogram.low) / histogram.width, kBins - 1.0);
    const auto at = static_cast<size_t>(bin);
    histogram.counts[at] += 1;
    histogram.sums[at] += value;
  });
  return histogram;
}

double Center(const Histogram& histogram, int bin) {
  return histogram.low + (bin + 0.5) * histogram.width;
}

// Where to start: level i is the mean of the i-th of sixteen runs of bins that share the cube root
// of the density equally, as the best levels of a smooth density do (Panter and Dite). A bin is
// never divided; a run without values repeats the level before it.
std::array<double, kLevels> FirstLevels(const Histogram& histogram) {
  double total = 0;
  for (const double count : histogram.counts) total += std::cbrt(count);
  std::array<double, kLevels> levels;
  double last = histogram.low;
  double seen = 0;
  size_t bin = 0;
  for (size_t i = 0; i < kLevels; ++i) {
    double count = 0;
    double sum = 0;
    const double end = total * static_cast<double>(i + 1) / kLevels;
    for (; bin < kBins && (count == 0 || seen < end); ++bin) {
      seen += std::cbrt(histogram.counts[bin]);
      count += histogram.counts[bin];
      sum += histogram.sums[bin];
    }
    if (count > 0) last = sum / count;
    levels[i] = last;
  }
  return levels;
}

// Each level becomes the mean of the bins that are nearest to it; one that has none stays.
void Refine(const Histogram& histogram, std::array<double, kLevels>& levels) {
  size_t nearest = 0;
  std::array<double, kLevels> counts = {};
  std::array<double, kLevels> sums = {};
  for (int bin = 0; bin < kBins; ++bin) {
    const double center = Center(histogram, bin);
    while (nearest + 1 < kLevels && center > 0.5 * (levels[nearest] + levels[nearest + 1])) {
      ++nearest;
    }
    counts[nearest] += histogram.counts[static_cast<size_t>(bin)];
    sums[nearest] += histogram.sums[static_cast<size_t>(bin)];
  }
  for (size_t i = 0; i < kLevels; ++i) {
    if (counts[i] > 0) levels[i] = sums[i] / counts[i];
  }
}

}  // namespace

ProjectionLevels FitProjectionLevels(std::span<const float> proj, std::span<const uint32_t> skip) {
  const Histogram histogram = Count(proj, skip);
  ProjectionLevels levels;
  levels.fill(static_cast<float>(histogram.low));
  if (histogram.width == 0) return levels;
  std::array<double, kLevels> exact = FirstLevels(histogram);
  for (int i = 0; i < kIterations; ++i) Refine(histogram, exact);
  std::transform(exact.begin(), exact.end(), levels.begin(),
                 [](double level) { return static_cast<float>(level); });
  return levels;
}

uint8_t NearestLevel(const ProjectionLevels& levels, float proj) {
  const auto above = std::lower_bound(levels.begin(), levels.end(), proj);
  if (above == levels.begin()) return 0;
  const auto index = static_cast<uint8_t>(above - levels.begin());
  if (above == levels.end()) return index - 1;
  return proj - levels[index - 1] <= levels[index] - proj ? index - 1 : index;
}

}  // namespace anchorage::kv
