#include "kv/compressors/fit_anchors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/anchor.h"

namespace anchorage::kv {
namespace {

using kernels::Bf16;
using kernels::ToBf16;
using kernels::ToFloat;

LayerPlan Plan(int64_t prefix_len, int64_t head_dim, int64_t pins, int64_t fitted,
               int64_t window = 1) {
  LayerPlan plan;
  plan.layout = Layout::kCompact;
  plan.num_kv_heads = 1;
  plan.head_dim = head_dim;
  plan.window_len = window;
  plan.seq_len = prefix_len + window;
  plan.num_pins = pins;
  plan.num_fitted = fitted;
  plan.num_anchors = pins + fitted + window;
  return plan;
}

using Fill = std::function<void(int64_t position, float* row)>;

std::vector<Bf16> Rows(int64_t count, int64_t dim, const Fill& fill) {
  std::vector<Bf16> rows;
  std::vector<float> row(static_cast<size_t>(dim));
  for (int64_t t = 0; t < count; ++t) {
    std::fill(row.begin(), row.end(), 0.0f);
    fill(t, row.data());
    for (const float value : row) rows.push_back(ToBf16(value));
  }
  return rows;
}

// The anchors after a fit, [k, D]; pinned ones and the window are `kept` before it.
std::vector<Bf16> Fit(const LayerPlan& plan, const std::vector<Bf16>& x, float kept = 0,
                      int threads = 1) {
  const auto n = static_cast<size_t>(NumFitRows(plan));
  std::vector<Bf16> room_rows(n * static_cast<size_t>(plan.head_dim));
  std::vector<uint16_t> idx(n);
  std::vector<float> proj(n);
  std::vector<Bf16> anchors(static_cast<size_t>(plan.num_anchors * plan.head_dim), ToBf16(kept));
  kernels::Stream stream(threads);
  EXPECT_EQ(FitAnchors(plan, x.data(), anchors, {room_rows, idx, proj}, stream),
            kernels::Status::kOk);
  return anchors;
}

// What no anchor stands for, of all rows.
double EnergyLeft(const LayerPlan& plan, const std::vector<Bf16>& x,
                  const std::vector<Bf16>& anchors) {
  const int dim = static_cast<int>(plan.head_dim);
  double left = 0;
  for (size_t at = 0; at < x.size(); at += plan.head_dim) {
    const int nearest = kernels::reference::NearestAnchor(dim, static_cast<int>(plan.num_anchors),
                                                          &x[at], anchors.data());
    const double proj =
        kernels::reference::Projection(dim, &x[at], &anchors[nearest * plan.head_dim]);
    for (int d = 0; d < dim; ++d) left += std::pow(double{ToFloat(x[at + d])}, 2);
    left -= proj * proj;
  }
  return left;
}

// Two lines, two rows each: the fit begins with a row of each line, which keeps its own, and an
// anchor is as long as the root mean square of its rows: sqrt((1 + 9) / 2) and sqrt((4 + 16) / 2).
TEST(FitAnchorsTest, TwoLinesByHand) {
  const LayerPlan plan = Plan(4, 8, 0, 2);
  const std::vector<Bf16> x = Rows(4, 8, [](int64_t t, float* row) {
    const float lengths[] = {1, 3, 2, -4};
    row[t / 2] = lengths[t];
  });
  const std::vector<Bf16> anchors = Fit(plan, x);
  EXPECT_EQ(ToFloat(anchors[0]), ToFloat(ToBf16(std::sqrt(5.0f))));
  EXPECT_EQ(ToFloat(anchors[8 + 1]), ToFloat(ToBf16(std::sqrt(10.0f))));
  EXPECT_EQ(EnergyLeft(plan, x, anchors), 0);
}

// Rows 3 e_0 + n e_1, n = -1, 0, 1 in turn: the line that leaves least is e_0, whatever row the fit
// begins with.
TEST(FitAnchorsTest, TurnsToTheLineThatLeavesLeast) {
  const LayerPlan plan = Plan(300, 8, 0, 1);
  const std::vector<Bf16> x = Rows(300, 8, [](int64_t t, float* row) {
    row[0] = 3;
    row[1] = static_cast<float>(t % 3 - 1);
  });
  ASSERT_NE(ToFloat(x[33 * 8 + 1]), 0) << "the fit begins with row 33, off the line";
  const std::vector<Bf16> anchors = Fit(plan, x);
  EXPECT_NEAR(ToFloat(anchors[0]), 3, 0.02);
  EXPECT_NEAR(ToFloat(anchors[1]), 0, 0.02);
}

Fill NoisyLines(int num_lines, int64_t dim, double noise) {
  auto random = std::make_shared<std::mt19937>(3);
  return [=](int64_t t, float* row) {
    std::normal_distribution<float> normal;
    const float length = 2 + normal(*random);
    row[t % num_lines] = t % 2 == 0 ? length : -length;
    for (int64_t d = 0; d < dim; ++d) row[d] += static_cast<float>(noise) * normal(*random);
  };
}

TEST(FitAnchorsTest, LeavesLessThanAsManyRowsWould) {
  const LayerPlan plan = Plan(1000, 64, 0, 12);
  const std::vector<Bf16> x = Rows(1000, 64, NoisyLines(5, 64, 0.3));
  std::vector<Bf16> rows(plan.num_anchors * 64);
  for (int i = 0; i < 12; ++i) std::copy_n(&x[(83 * i + 20) * 64], 64, &rows[i * 64]);
  const double noise = 1000 * 63 * 0.3 * 0.3;
  EXPECT_LT(EnergyLeft(plan, x, Fit(plan, x)), noise);
  EXPECT_GT(EnergyLeft(plan, x, rows), 1.3 * noise);
}

TEST(FitAnchorsTest, KeepsPinsAndWindow) {
  const LayerPlan plan = Plan(500, 16, 3, 4, 2);
  const std::vector<Bf16> x = Rows(500, 16, NoisyLines(6, 16, 0.1));
  const std::vector<Bf16> anchors = Fit(plan, x, 7);
  for (int64_t a = 0; a < plan.num_anchors; ++a) {
    const bool fitted = a >= 3 && a < 7;
    EXPECT_EQ(ToFloat(anchors[a * 16]) == 7 && ToFloat(anchors[a * 16 + 9]) == 7, !fitted) << a;
  }
}

TEST(FitAnchorsTest, AnAnchorWithoutRowsStaysARow) {
  const LayerPlan plan = Plan(100, 8, 0, 3);
  const std::vector<Bf16> x = Rows(100, 8, [](int64_t, float* row) { row[4] = 2; });
  const std::vector<Bf16> anchors = Fit(plan, x);  // ties go to the first
  for (int a = 0; a < 3; ++a) EXPECT_EQ(ToFloat(anchors[a * 8 + 4]), 2) << a;
}

TEST(FitAnchorsTest, ZeroAndHugeRowsStayFinite) {
  const LayerPlan plan = Plan(200, 8, 0, 4);
  const std::vector<Bf16> x = Rows(200, 8, [](int64_t t, float* row) {
    if (t % 3 == 0) return;
    for (int d = 0; d < 8; ++d) row[d] = t % 3 == 1 ? 3e38f : 1e-38f;
  });
  for (const Bf16 value : Fit(plan, x)) ASSERT_TRUE(std::isfinite(ToFloat(value)));
}

TEST(FitAnchorsTest, ThreadsMakeNoDifference) {
  const LayerPlan plan = Plan(3000, 64, 4, 12, 32);
  const std::vector<Bf16> x = Rows(3000, 64, NoisyLines(20, 64, 0.5));
  const std::vector<Bf16> one = Fit(plan, x, 1, 1);
  const std::vector<Bf16> two = Fit(plan, x, 1, 2);
  for (size_t i = 0; i < one.size(); ++i) ASSERT_EQ(one[i].bits, two[i].bits) << i;
}

TEST(FitAnchorsTest, LooksAtNoMoreRowsThanItNeeds) {
  EXPECT_EQ(NumFitRows(Plan(97, 8, 4, 12, 32)), 97);
  EXPECT_EQ(NumFitRows(Plan(4064, 64, 4, 12, 32)), 2048);
  EXPECT_EQ(NumFitRows(Plan(4064, 64, 16, 0, 32)), 0);
  EXPECT_EQ(NumFitRows(Plan(32736, 128, 4, 220, 32)), 32 * 256);
}

}  // namespace
}  // namespace anchorage::kv
