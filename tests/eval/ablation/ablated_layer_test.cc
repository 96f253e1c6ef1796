#include "eval/ablation/ablated_layer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/anchor.h"
#include "kv/layouts/slot_index.h"
#include "tests/kv/layer_fixture.h"

namespace anchorage::eval {
namespace {

using kv::kSides;
using kv::LayerShape;
using kv::MadeUpLayer;
using kv::Side;

constexpr int64_t kThetaPpm = 100'000;

kv::PlanOptions Served(int64_t theta_ppm = kThetaPpm) {
  kv::PlanOptions options;
  options.theta_ppm = theta_ppm;
  return options;
}

kv::LayerPlan PlanFor(const MadeUpLayer& layer, const kv::PlanOptions& options) {
  return kv::PlanLayer(layer.geometry(), options, layer.shape().seq_len, 3);
}

AblatedLayer Ablate(const MadeUpLayer& layer, const std::string& name,
                    int64_t theta_ppm = kThetaPpm) {
  const Ablation ablation = ParseAblation(name).value();
  const kv::PlanOptions options = PlanOf(ablation, Served(theta_ppm));
  kernels::Stream stream(1);
  auto result = AblateLayer(layer.layer(), layer.observed(), PlanFor(layer, options), options,
                            ablation, stream);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

const std::vector<float>& RowsOf(const AblatedLayer& ablated, Side side) {
  return side == Side::kKey ? ablated.rows.k : ablated.rows.v;
}
const std::vector<uint8_t>& CodesOf(const AblatedLayer& ablated, Side side) {
  return ablated.codes[static_cast<size_t>(side)];
}

int64_t NumCodes(const std::vector<uint8_t>& codes) {
  return std::accumulate(codes.begin(), codes.end(), int64_t{0});
}
int64_t PlannedCodes(const kv::LayerPlan& plan, Side side) {
  return kv::NumSlots(plan, side, kv::Stage::kCoarse) + kv::NumSlots(plan, side, kv::Stage::kFine);
}

// Row of a [H, S, D] reconstruction.
std::span<const float> RowOf(const MadeUpLayer& layer, const std::vector<float>& rows, int64_t head,
                             int64_t position) {
  const LayerShape& shape = layer.shape();
  return std::span(rows).subspan((head * shape.seq_len + position) * shape.head_dim,
                                 static_cast<size_t>(shape.head_dim));
}

double SquaredDistance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - b[i], 2);
  return sum;
}

double Cosine(std::span<const float> a, std::span<const float> b) {
  const double dot = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  return dot / std::sqrt(std::inner_product(a.begin(), a.end(), a.begin(), 0.0) *
                         std::inner_product(b.begin(), b.end(), b.begin(), 0.0));
}

// ---- Nothing ablated ----

class ServedTest : public testing::TestWithParam<LayerShape> {};

TEST_P(ServedTest, IsExactlyWhatTheServedCompressorStandsFor) {
  const MadeUpLayer layer(GetParam());
  for (const int64_t theta_ppm : {50'000, 100'000, 400'000}) {
    const auto compressed = layer.Compress(Served(theta_ppm));
    ASSERT_TRUE(compressed.ok()) << compressed.status();
    const auto expected = kv::ReconstructLayer(compressed->plan, compressed->region.span(),
                                               layer.rope(), kernels::CodePacking::kPlanar);
    ASSERT_TRUE(expected.ok());
    EXPECT_TRUE(theta_ppm < 400'000 || compressed->plan.key_fine_slots > 0);
    const AblatedLayer ablated = Ablate(layer, "served", theta_ppm);
    EXPECT_TRUE(ablated.rows.k == expected->k);
    EXPECT_TRUE(ablated.rows.v == expected->v);
    for (const Side side : kSides) {
      EXPECT_EQ(NumCodes(CodesOf(ablated, side)), PlannedCodes(compressed->plan, side));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ServedTest,
                         testing::Values(LayerShape{129, 1, 1, 64}, LayerShape{700, 2, 4, 64},
                                         LayerShape{1500, 3, 9, 64}, LayerShape{900, 2, 2, 128},
                                         LayerShape{500, 1, 4, 80}),
                         [](const auto& info) { return info.param.ToString(); });

TEST(AblateLayerTest, RefusesOtherLayouts) {
  const MadeUpLayer layer({300, 1, 1, 64});
  kernels::Stream stream(1);
  for (const kv::Layout layout : {kv::Layout::kDense, kv::Layout::kPaper, kv::Layout::kSnapKv}) {
    kv::PlanOptions options = Served();
    options.layout = layout;
    EXPECT_EQ(
        AblateLayer(layer.layer(), layer.observed(), PlanFor(layer, options), options, {}, stream)
            .status()
            .code(),
        absl::StatusCode::kInvalidArgument);
  }
}

// ---- One at a time ----

class AblatedLayerTest : public testing::Test {
 protected:
  AblatedLayerTest()
      : layer_({1500, 2, 4, 64}),
        plan_(PlanFor(layer_, Served())),
        bare_(Ablate(layer_, "no-residuals")) {}

  // |r|^2 of a prefix position: what is missing where nothing has a residual.
  double ResidualEnergy(Side side, int64_t head, int64_t position) const {
    return SquaredDistance(layer_.Exact(side, head, position),
                           RowOf(layer_, RowsOf(bare_, side), head, position));
  }

  // No position without a code has a `merit` that is more than `slack` times that of one with.
  template <typename Merit>
  void ExpectBestHaveCodes(const AblatedLayer& ablated, double slack, const Merit& merit) const {
    for (const Side side : kSides) {
      double worst_with = 1e300;
      double best_without = 0;
      for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
        for (int64_t position = 0; position < plan_.prefix_len(); ++position) {
          const double value = merit(side, head, position);
          if (CodesOf(ablated, side)[head * plan_.prefix_len() + position] > 0) {
            worst_with = std::min(worst_with, value);
          } else {
            best_without = std::max(best_without, value);
          }
        }
      }
      EXPECT_LE(best_without, slack * worst_with);
    }
  }

  void ExpectPlannedCodes(const AblatedLayer& ablated) const {
    for (const Side side : kSides) {
      EXPECT_EQ(NumCodes(CodesOf(ablated, side)), PlannedCodes(plan_, side));
    }
  }

  // Whether the row came back as an anchor does, off by no more than its eight bits.
  bool IsKept(const AblatedLayer& ablated, Side side, int64_t head, int64_t position) const {
    const std::vector<float> exact = layer_.Exact(side, head, position);
    const std::vector<float> zeros(exact.size());
    const auto row = RowOf(layer_, RowsOf(ablated, side), head, position);
    return SquaredDistance(row, exact) <= 4e-4 * SquaredDistance(zeros, exact);
  }

  const MadeUpLayer layer_;
  const kv::LayerPlan plan_;
  const AblatedLayer bare_;
};

TEST_F(AblatedLayerTest, NoResidualsLeavesTheProjections) {
  for (const Side side : kSides) {
    EXPECT_EQ(NumCodes(CodesOf(bare_, side)), 0);
    // The window is kept; what was coded in the served layer is worse here.
    const AblatedLayer served = Ablate(layer_, "served");
    for (int64_t position = 1468; position < 1500; ++position) {
      EXPECT_TRUE(IsKept(bare_, side, 1, position)) << position;
    }
    EXPECT_GT(RelativeError(layer_, side, RowsOf(bare_, side)),
              RelativeError(layer_, side, RowsOf(served, side)));
  }
}

TEST_F(AblatedLayerTest, WhatIsExactComesBackAndTheRestIsAsServed) {
  const AblatedLayer served = Ablate(layer_, "served");
  const auto expect = [&](const char* name, const auto& is_exact) {
    const AblatedLayer ablated = Ablate(layer_, name);
    ExpectPlannedCodes(ablated);
    for (const Side side : kSides) {
      for (int64_t at = 0; at < 2 * plan_.prefix_len(); ++at) {
        const int64_t head = at / plan_.prefix_len();
        const int64_t position = at % plan_.prefix_len();
        const bool exact = is_exact(side, CodesOf(ablated, side)[at] > 0);
        const auto row = RowOf(layer_, RowsOf(ablated, side), head, position);
        const std::vector<float> original = layer_.Exact(side, head, position);
        const auto as_served = RowOf(layer_, RowsOf(served, side), head, position);
        ASSERT_EQ(SquaredDistance(row, exact ? original : as_served), 0) << name << " " << at;
      }
    }
  };
  expect("exact-keys", [](Side side, bool) { return side == Side::kKey; });
  expect("exact-values", [](Side side, bool) { return side == Side::kValue; });
  expect("exact-coded", [](Side, bool coded) { return coded; });
  expect("exact-uncoded", [](Side, bool coded) { return !coded; });
}

TEST_F(AblatedLayerTest, RanksByResidualNorm) {
  const AblatedLayer ablated = Ablate(layer_, "rank-residual-norm");
  ExpectPlannedCodes(ablated);
  ExpectBestHaveCodes(ablated, 1 + 1e-4, [this](Side side, int64_t head, int64_t position) {
    return ResidualEnergy(side, head, position);
  });
}

TEST_F(AblatedLayerTest, RanksByCosine) {
  const AblatedLayer ablated = Ablate(layer_, "rank-cosine");
  ExpectPlannedCodes(ablated);
  // The bare row lies along the anchor, whatever its length; NaN where it has none counts for
  // nobody.
  ExpectBestHaveCodes(ablated, 1 + 1e-3, [this](Side side, int64_t head, int64_t position) {
    const std::vector<float> exact = layer_.Exact(side, head, position);
    return 1 - std::fabs(Cosine(exact, RowOf(layer_, RowsOf(bare_, side), head, position)));
  });
}

TEST_F(AblatedLayerTest, RanksByAttention) {
  const AblatedLayer ablated = Ablate(layer_, "rank-attention");
  ExpectPlannedCodes(ablated);
  std::vector<double> scores(static_cast<size_t>(plan_.num_kv_heads * plan_.prefix_len()));
  kernels::reference::ScorePrefix(layer_.layer().kv, layer_.observed(), layer_.rope(), 32, 7,
                                  scores.data());
  ExpectBestHaveCodes(ablated, 1 + 1e-4, [&](Side side, int64_t head, int64_t position) {
    return IsKept(bare_, side, head, position) ? 0 : scores[head * plan_.prefix_len() + position];
  });
}

TEST_F(AblatedLayerTest, RanksAtRandom) {
  const AblatedLayer ablated = Ablate(layer_, "rank-random");
  ExpectPlannedCodes(ablated);
  const AblatedLayer again = Ablate(layer_, "rank-random");
  EXPECT_EQ(ablated.codes, again.codes);
  EXPECT_NE(CodesOf(ablated, Side::kKey), CodesOf(ablated, Side::kValue));
  // Any quarter of the positions has a quarter of the codes, within five standard deviations.
  for (const Side side : kSides) {
    const std::vector<uint8_t>& codes = CodesOf(ablated, side);
    const size_t quarter = codes.size() / 4;
    const double share = static_cast<double>(NumCodes(codes)) / static_cast<double>(codes.size());
    for (size_t first = 0; first + quarter <= codes.size(); first += quarter) {
      const double count = std::accumulate(&codes[first], &codes[first] + quarter, 0.0);
      EXPECT_NEAR(count, share * quarter, 5 * std::sqrt(quarter * share * (1 - share)));
    }
  }
}

TEST_F(AblatedLayerTest, EveryRankingLeavesMoreThanUtilityWhereTheWindowLooks) {
  // Error of the values, weighted by how the window attends.
  std::vector<double> scores(static_cast<size_t>(plan_.num_kv_heads * plan_.prefix_len()));
  kernels::reference::ScorePrefix(layer_.layer().kv, layer_.observed(), layer_.rope(), 32, 1,
                                  scores.data());
  const auto weighted_error = [&](const AblatedLayer& ablated) {
    double error = 0;
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      for (int64_t position = 0; position < plan_.prefix_len(); ++position) {
        error += scores[head * plan_.prefix_len() + position] *
                 SquaredDistance(layer_.Exact(Side::kValue, head, position),
                                 RowOf(layer_, ablated.rows.v, head, position));
      }
    }
    return error;
  };
  const double served = weighted_error(Ablate(layer_, "unpooled-utility"));
  EXPECT_LT(served, weighted_error(Ablate(layer_, "rank-random")));
  EXPECT_LT(served, weighted_error(Ablate(layer_, "rank-cosine")));
  EXPECT_LT(served, weighted_error(bare_));
}

TEST_F(AblatedLayerTest, EqualHeadsGetTheSameNumber) {
  const AblatedLayer served = Ablate(layer_, "served");
  const AblatedLayer ablated = Ablate(layer_, "equal-heads");
  ExpectPlannedCodes(ablated);
  for (const Side side : kSides) {
    const std::vector<uint8_t>& codes = CodesOf(ablated, side);
    const int64_t first = std::accumulate(codes.begin(), codes.begin() + plan_.prefix_len(), 0);
    const int64_t coarse = kv::NumSlots(plan_, side, kv::Stage::kCoarse);
    EXPECT_EQ(first, (coarse + 1) / 2 + (PlannedCodes(plan_, side) - coarse + 1) / 2);
    EXPECT_NE(codes, CodesOf(served, side));
  }
}

// The least that a side keeps of either code, where the two compete.
int64_t QuarterOfCodes(const kv::LayerPlan& plan) {
  return (plan.key_slots + plan.value_slots) / 4 +
         (plan.key_fine_slots + plan.value_fine_slots) / 4;
}

TEST_F(AblatedLayerTest, JointSidesSpendAsManySlotsInAll) {
  const AblatedLayer ablated = Ablate(layer_, "joint-sides");
  const int64_t keys = NumCodes(CodesOf(ablated, Side::kKey));
  const int64_t values = NumCodes(CodesOf(ablated, Side::kValue));
  EXPECT_EQ(keys + values, PlannedCodes(plan_, Side::kKey) + PlannedCodes(plan_, Side::kValue));
  EXPECT_NE(keys, PlannedCodes(plan_, Side::kKey));
  EXPECT_GE(std::min(keys, values), QuarterOfCodes(plan_));
}

TEST(JointSidesTest, AWorthlessSideKeepsAQuarter) {
  // All values are the same vector: nothing is left to code.
  const LayerShape shape = {1500, 2, 4, 64};
  const auto clustered = MadeUpLayer::Clustered(shape, 3);
  const MadeUpLayer layer(shape, [&](Side side, int head, int64_t position, float* row) {
    clustered(side, head, position, row);
    if (side == Side::kValue) std::fill(row, row + 64, 1.0f);
  });
  const AblatedLayer ablated = Ablate(layer, "joint-sides");
  EXPECT_EQ(NumCodes(CodesOf(ablated, Side::kValue)), QuarterOfCodes(PlanFor(layer, Served())));
}

TEST_F(AblatedLayerTest, NaiveTwoBitsBuysFewerSlotsAndDoesNotRotate) {
  const AblatedLayer ablated = Ablate(layer_, "naive-2bit");
  const std::vector<uint8_t>& codes = CodesOf(ablated, Side::kValue);
  EXPECT_EQ(NumCodes(codes), plan_.value_slots * 18 / 20 + plan_.value_fine_slots * 18 / 20);
  for (int64_t position = 0; position < plan_.prefix_len(); ++position) {
    if (codes[position] != 1) continue;
    // What was added has four levels; a sum of floats tells them only about apart.
    const auto row = RowOf(layer_, ablated.rows.v, 0, position);
    const auto projection = RowOf(layer_, bare_.rows.v, 0, position);
    std::vector<float> added;
    for (size_t d = 0; d < row.size(); ++d) added.push_back(row[d] - projection[d]);
    std::sort(added.begin(), added.end());
    const float apart = (added.back() - added.front()) / 100;
    int levels = 1;
    for (size_t d = 1; d < added.size(); ++d) levels += added[d] - added[d - 1] > apart ? 1 : 0;
    EXPECT_LE(levels, 4) << position;
  }
}

TEST_F(AblatedLayerTest, EvenBitsChangeKeysWithOneCodeAlone) {
  const AblatedLayer served = Ablate(layer_, "served");
  const AblatedLayer ablated = Ablate(layer_, "even-bits");
  EXPECT_EQ(ablated.rows.v, served.rows.v);
  EXPECT_EQ(CodesOf(ablated, Side::kKey), CodesOf(served, Side::kKey));
  for (int64_t position = 0; position < plan_.prefix_len(); ++position) {
    const bool one_code = CodesOf(served, Side::kKey)[position] == 1;
    EXPECT_EQ(SquaredDistance(RowOf(layer_, ablated.rows.k, 0, position),
                              RowOf(layer_, served.rows.k, 0, position)) != 0,
              one_code)
        << position;
  }
}

TEST_F(AblatedLayerTest, OtherScalesLeaveMoreInTheSamePlaces) {
  const AblatedLayer served = Ablate(layer_, "even-bits");
  for (const Side side : kSides) {
    double least = RelativeError(layer_, side, RowsOf(served, side));
    for (const char* name : {"scale-rms", "scale-absmax-outer", "scale-absmax"}) {
      const AblatedLayer ablated = Ablate(layer_, name);
      EXPECT_EQ(CodesOf(ablated, side), CodesOf(served, side));
      const double error = RelativeError(layer_, side, RowsOf(ablated, side));
      EXPECT_GT(error, least) << name;
      least = error;
    }
  }
}

TEST_F(AblatedLayerTest, AfterRopeProjectsOntoRotatedAnchors) {
  const AblatedLayer ablated = Ablate(layer_, "after-rope+row-anchors+no-residuals");
  const AblatedLayer before = Ablate(layer_, "row-anchors+no-residuals");
  EXPECT_EQ(ablated.rows.v, before.rows.v);
  EXPECT_NE(ablated.rows.k, before.rows.k);
  // Every key is a multiple of some rotated key, as none is before.
  const auto most_parallel = [&](std::span<const float> row) {
    double best = 0;
    for (int64_t t = 0; t < 1500; ++t) {
      best = std::max(best, std::fabs(Cosine(row, layer_.Exact(Side::kKey, 0, t))));
    }
    return best;
  };
  for (const int64_t position : {100, 555, 1101, 1400}) {
    EXPECT_GT(most_parallel(RowOf(layer_, ablated.rows.k, 0, position)), 1 - 4e-4);
  }
  EXPECT_LT(most_parallel(RowOf(layer_, before.rows.k, 0, 555)), 1 - 1e-3);
}

TEST_F(AblatedLayerTest, RowAnchorsAreRows) {
  const auto most_parallel = [&](std::span<const float> row) {
    double best = 0;
    for (int64_t t = 0; t < 1500; ++t) {
      best = std::max(best, std::fabs(Cosine(row, layer_.Exact(Side::kValue, 1, t))));
    }
    return best;
  };
  const auto least_parallel = [&](const AblatedLayer& ablated) {
    double least = 1;
    for (int64_t t = 0; t < 1400; t += 7) {
      least = std::min(least, most_parallel(RowOf(layer_, ablated.rows.v, 1, t)));
    }
    return least;
  };
  EXPECT_LT(least_parallel(bare_), 1 - 1e-3);
  EXPECT_GT(least_parallel(Ablate(layer_, "row-anchors+no-residuals")), 1 - 4e-4);
  EXPECT_GT(least_parallel(Ablate(layer_, "scored-anchors+no-residuals")), 1 - 4e-4);
  EXPECT_NE(Ablate(layer_, "row-anchors").rows.v, Ablate(layer_, "scored-anchors").rows.v);
}

TEST_F(AblatedLayerTest, AnotherWindowKeepsAnotherNumberOfRows) {
  // MadeUpLayer observes 32 rows; a wider window may have fewer than it is wide.
  const AblatedLayer ablated = Ablate(layer_, "window-64");
  for (const Side side : kSides) {
    ASSERT_EQ(CodesOf(ablated, side).size(), 2u * (1500 - 64));
    for (int64_t position = 1500 - 64; position < 1500; ++position) {
      EXPECT_TRUE(IsKept(ablated, side, 0, position)) << position;
    }
  }
}

TEST_F(AblatedLayerTest, WithoutSinksTheFirstPositionsAreNoAnchorsByRight) {
  const AblatedLayer served = Ablate(layer_, "served+no-residuals");
  const AblatedLayer ablated = Ablate(layer_, "no-sinks+no-residuals");
  const auto kept_among_first = [&](const AblatedLayer& rows) {
    int kept = 0;
    for (int64_t head = 0; head < 2; ++head) {
      for (int64_t position = 0; position < 4; ++position) {
        kept += IsKept(rows, Side::kValue, head, position) ? 1 : 0;
      }
    }
    return kept;
  };
  EXPECT_EQ(kept_among_first(served), 8);
  EXPECT_LT(kept_among_first(ablated), 4);
}

}  // namespace
}  // namespace anchorage::eval
