// The sum over a window is the end of one block of `width` positions and the beginning of the next:
// each is summed up once, nothing is ever subtracted, so no utility drowns in a neighbour that was
// a million times larger.
#include "kv/compressors/pool_utilities.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace anchorage::kv {
namespace {

class Row {
 public:
  Row(std::span<float> values, int64_t width) : values_(values), width_(width) {}

  // The `width` values from `first` on, with zeros beyond the row's ends.
  std::vector<double> Block(int64_t first) const {
    std::vector<double> block(static_cast<size_t>(width_));
    for (int64_t i = 0; i < width_; ++i) {
      const int64_t at = first + i;
      if (at >= 0 && at < size()) block[i] = Finite(values_[at]);
    }
    return block;
  }

  int64_t size() const { return static_cast<int64_t>(values_.size()); }
  void Add(int64_t at, double more) {
    if (at >= size()) return;
    values_[at] = static_cast<float>(
        std::min<double>(Finite(values_[at]) + more, std::numeric_limits<float>::max()));
  }

 private:
  static float Finite(float value) {
    return value > 0 ? std::min(value, std::numeric_limits<float>::max()) : 0.0f;
  }

  std::span<float> values_;
  int64_t width_;
};

// block[i] <- sum of block[i ..].
void SumFromTheEnd(std::vector<double>& block) {
  for (size_t i = block.size() - 1; i > 0; --i) block[i - 1] += block[i];
}

}  // namespace

void PoolUtilities(std::span<float> utilities, int64_t width) {
  if (width <= 1) return;
  Row row(utilities, width);
  std::vector<double> ends = row.Block(-(width / 2));
  for (int64_t first = 0; first < row.size(); first += width) {
    std::vector<double> next = row.Block(first - width / 2 + width);  // not written to yet
    SumFromTheEnd(ends);
    double beginning = 0;  // of `next`
    for (int64_t i = 0; i < width; ++i) {
      row.Add(first + i, (ends[i] + beginning) / static_cast<double>(width));
      beginning += next[i];
    }
    ends = std::move(next);
  }
}

}  // namespace anchorage::kv
