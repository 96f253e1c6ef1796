#include "kv/compressors/pool_utilities.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace anchorage::kv {
namespace {

constexpr double kOwnWeight = 4.0;
constexpr double kNearWeight = 4.0;
constexpr int64_t kNearWidth = 63;
constexpr float kMost = std::numeric_limits<float>::max();

float Finite(float value) { return value > 0 ? std::min(value, kMost) : 0.0f; }

// The sums over the window around each position, from the first on. A window is the end of one
// block of `width` positions and the beginning of the next: each is summed up once, nothing is ever
// subtracted, so no value drowns in a neighbour that was a million times larger. Only positions
// beyond the window are still read, so the row may be overwritten behind it.
class WindowSums {
 public:
  WindowSums(std::span<const float> values, int64_t width)
      : values_(values), width_(width), next_(Block(-(width / 2))) {}

  double Next() {
    const int64_t i = position_ % width_;
    if (i == 0) StartBlock();
    const double sum = ends_[i] + beginning_;
    beginning_ += next_[i];
    ++position_;
    return sum;
  }

 private:
  // The `width` values from `first` on, with zeros beyond the row's ends.
  std::vector<double> Block(int64_t first) const {
    std::vector<double> block(static_cast<size_t>(width_));
    for (int64_t i = 0; i < width_; ++i) {
      const int64_t at = first + i;
      if (at >= 0 && at < std::ssize(values_)) block[i] = Finite(values_[at]);
    }
    return block;
  }

  void StartBlock() {
    ends_ = std::move(next_);
    for (size_t i = ends_.size() - 1; i > 0; --i) ends_[i - 1] += ends_[i];
    next_ = Block(position_ - width_ / 2 + width_);
    beginning_ = 0;
  }

  std::span<const float> values_;
  int64_t width_;
  int64_t position_ = 0;
  std::vector<double> ends_;  // sums from each position to its block's end
  std::vector<double> next_;  // the block behind it
  double beginning_ = 0;      // sum of what of it lies in the window
};

// What residuals are worth for their energy, in the window around each position.
class Prices {
 public:
  // A window that is wider than the row sees all of it from everywhere.
  Prices(std::span<const float> utilities, std::span<const float> energies, int64_t width)
      : utilities_(utilities, std::min(width, 2 * std::ssize(utilities) - 1)),
        energies_(energies, std::min(width, 2 * std::ssize(energies) - 1)) {}

  double Next() {
    const double utility = utilities_.Next();
    const double energy = energies_.Next();
    return energy > 0 ? utility / energy : 0.0;
  }

 private:
  WindowSums utilities_;
  WindowSums energies_;
};

}  // namespace

void PoolUtilities(std::span<float> utilities, std::span<const float> energies, int64_t width) {
  if (width <= 1 || utilities.empty()) return;
  Prices wide(utilities, energies, width);
  Prices near(utilities, energies, std::min(width, kNearWidth));
  for (size_t t = 0; t < utilities.size(); ++t) {
    const double price = wide.Next() + kNearWeight * near.Next();
    const double pooled = kOwnWeight * Finite(utilities[t]) + Finite(energies[t]) * price;
    utilities[t] = static_cast<float>(std::min<double>(pooled, kMost));
  }
}

}  // namespace anchorage::kv
