#include "kv/compressors/fit_anchors.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/anchor.h"
#include "kv/compressors/select_anchors.h"

namespace anchorage::kv {
namespace {

constexpr int kRounds = 3;
constexpr int64_t kLeastRows = 2048;
constexpr int64_t kRowsPerAnchor = 32;

// Which position of the i-th of `count` equal stretches of [0, end) is looked at: any, so that
// nothing in a text that comes again and again falls into step with them.
int64_t AnyOfStretch(int64_t i, int64_t count, int64_t end) {
  const int64_t first = i * end / count;
  const auto length = static_cast<uint64_t>((i + 1) * end / count - first);
  return first + static_cast<int64_t>(UniformHash(0, 0, 0, i) % length);
}

// sum <x, a>/|a| x over the rows of each anchor, and sum of (<x, a>/|a|)^2 and how many they are.
class Sums {
 public:
  explicit Sums(const LayerPlan& plan)
      : dim_(plan.head_dim),
        directions_(static_cast<size_t>(plan.num_anchors * plan.head_dim)),
        squares_(static_cast<size_t>(plan.num_anchors)),
        counts_(static_cast<size_t>(plan.num_anchors)) {}

  void Add(int64_t anchor, double proj, const kernels::Bf16* x) {
    double* direction = &directions_[anchor * dim_];
    for (int64_t d = 0; d < dim_; ++d) direction[d] += proj * kernels::ToFloat(x[d]);
    squares_[anchor] += proj * proj;
    counts_[anchor] += 1;
  }

  // The direction, as long as its rows' projections are in the root mean square.
  void Turn(int64_t anchor, kernels::Bf16* row) const {
    const double* direction = &directions_[anchor * dim_];
    double square = 0;
    for (int64_t d = 0; d < dim_; ++d) square += direction[d] * direction[d];
    if (!(square > 0) || !std::isfinite(square)) return;
    const double factor = std::sqrt(squares_[anchor] / counts_[anchor] / square);
    for (int64_t d = 0; d < dim_; ++d) {
      row[d] = kernels::ToBf16(static_cast<float>(factor * direction[d]));
    }
  }

 private:
  int64_t dim_;
  std::vector<double> directions_;  // [k, D]
  std::vector<double> squares_;     // [k]
  std::vector<double> counts_;      // [k]
};

}  // namespace

int64_t NumFitRows(const LayerPlan& plan) {
  if (plan.num_fitted == 0) return 0;
  return std::min(plan.prefix_len(), std::max(kLeastRows, kRowsPerAnchor * plan.num_anchors));
}

kernels::Status FitAnchors(const LayerPlan& plan, const kernels::Bf16* x,
                           std::span<kernels::Bf16> anchors, const FitRoom& room,
                           kernels::Stream& stream) {
  const int64_t dim = plan.head_dim;
  const int64_t num_rows = NumFitRows(plan);
  for (int64_t i = 0; i < num_rows; ++i) {
    std::copy_n(x + AnyOfStretch(i, num_rows, plan.prefix_len()) * dim, dim, &room.rows[i * dim]);
  }
  const int64_t end = plan.num_pins + plan.num_fitted;
  for (int64_t i = 0; i < plan.num_fitted; ++i) {
    std::copy_n(x + AnyOfStretch(i, plan.num_fitted, plan.prefix_len()) * dim, dim,
                &anchors[(plan.num_pins + i) * dim]);
  }
  for (int round = 0; round < kRounds; ++round) {
    const kernels::Status status = kernels::AssignAnchors(
        num_rows, static_cast<int>(dim), static_cast<int>(plan.num_anchors), room.rows.data(),
        anchors.data(), room.idx.data(), room.proj.data(), stream);
    if (status != kernels::Status::kOk) return status;
    Sums sums(plan);
    for (int64_t i = 0; i < num_rows; ++i) {
      sums.Add(room.idx[i], room.proj[i], &room.rows[i * dim]);
    }
    for (int64_t a = plan.num_pins; a < end; ++a) sums.Turn(a, &anchors[a * dim]);
  }
  return kernels::Status::kOk;
}

}  // namespace anchorage::kv
