#include "kv/compressors/anchorkv.h"
#include "kv/compressors/fit_anchors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/decode_attention.h"
#include "kv/layer_cache.h"
#include "kv/layouts/compact.h"
#include "kv/layouts/reconstruct.h"
#include "kv/layouts/slot_index.h"
#include "kv/tensor_span.h"
#include "tests/kv/layer_fixture.h"

namespace anchorage::kv {
namespace {

using kernels::CodePacking;
using testing::HasSubstr;

PlanOptions Options(Layout layout, int64_t theta_ppm = 50'000) {
  PlanOptions options;
  options.layout = layout;
  options.theta_ppm = theta_ppm;
  return options;
}

ReconstructedLayer Reconstruct(const MadeUpLayer& layer, const CompressedLayer& compressed,
                               CodePacking packing = CodePacking::kPlanar) {
  auto result = ReconstructLayer(compressed.plan, compressed.region.span(), layer.rope(), packing);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

bool SameBytes(const CompressedLayer& a, const CompressedLayer& b) {
  return a.region.size() == b.region.size() &&
         std::memcmp(a.region.data(), b.region.data(), a.region.size()) == 0;
}

// |rebuilt - exact| / |exact| of one row.
double RowError(const MadeUpLayer& layer, Side side, int64_t head, int64_t t,
                const std::vector<float>& rebuilt) {
  const std::vector<float> exact = layer.Exact(side, head, t);
  const float* row = &rebuilt[(head * layer.shape().seq_len + t) * std::ssize(exact)];
  double error = 0, norm = 0;
  for (size_t d = 0; d < exact.size(); ++d) {
    error += std::pow(double{row[d]} - exact[d], 2);
    norm += std::pow(double{exact[d]}, 2);
  }
  return std::sqrt(error / norm);
}

// ---- Every shape and layout ----

class AnchorKvShapeTest : public testing::TestWithParam<LayerShape> {};

TEST_P(AnchorKvShapeTest, FillsThePlanVerifiesAndKeepsAnchors) {
  const MadeUpLayer layer(GetParam());
  for (const Layout layout : {Layout::kCompact, Layout::kPaper}) {
    const auto compressed = layer.Compress(Options(layout, 100'000));
    ASSERT_TRUE(compressed.ok()) << compressed.status();
    const LayerPlan& plan = compressed->plan;
    EXPECT_EQ(compressed->layer, 3);
    EXPECT_EQ(static_cast<int64_t>(compressed->region.size()), plan.region_bytes);
    EXPECT_EQ(compressed->checksum, Checksum(compressed->region.span()));
    EXPECT_EQ(VerifyLayer(plan, compressed->region.span()), absl::OkStatus());

    const ReconstructedLayer rebuilt = Reconstruct(layer, *compressed);
    EXPECT_LT(RelativeError(layer, Side::kKey, rebuilt.k), 0.2);
    EXPECT_LT(RelativeError(layer, Side::kValue, rebuilt.v), 0.5);
    if (plan.layout == Layout::kDense) continue;
    for (int64_t head = 0; head < plan.num_kv_heads; ++head) {
      for (int64_t t = plan.prefix_len(); t < plan.seq_len; ++t) {
        const double most = layout == Layout::kPaper ? 0.0 : 0.02;  // of eight bits
        ASSERT_LE(RowError(layer, Side::kKey, head, t, rebuilt.k), most) << t;
        ASSERT_LE(RowError(layer, Side::kValue, head, t, rebuilt.v), most) << t;
      }
    }
  }
}

TEST_P(AnchorKvShapeTest, BytesAreTheSameForAnyNumberOfThreads) {
  const MadeUpLayer layer(GetParam());
  for (const Layout layout : {Layout::kDense, Layout::kCompact, Layout::kPaper}) {
    const auto one = layer.Compress(Options(layout), 1);
    ASSERT_TRUE(one.ok()) << one.status();
    for (const int threads : {2, 3}) {
      const auto many = layer.Compress(Options(layout), threads);
      ASSERT_TRUE(many.ok()) << many.status();
      EXPECT_TRUE(SameBytes(*one, *many)) << LayoutName(layout) << " " << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AnchorKvShapeTest,
                         testing::Values(LayerShape{1, 2, 4, 64}, LayerShape{32, 2, 4, 64},
                                         LayerShape{64, 2, 4, 64}, LayerShape{65, 2, 4, 64},
                                         LayerShape{128, 2, 4, 64}, LayerShape{129, 2, 4, 64},
                                         LayerShape{500, 2, 4, 64}, LayerShape{1000, 3, 9, 64},
                                         LayerShape{1000, 1, 4, 80}, LayerShape{700, 2, 2, 96},
                                         LayerShape{600, 1, 1, 128}, LayerShape{400, 2, 2, 256},
                                         LayerShape{4097, 1, 2, 64}),
                         [](const auto& info) { return info.param.ToString(); });

// ---- Fidelity ----

TEST(AnchorKvTest, ResidualsForAllTokensAreNearlyLossless) {
  const MadeUpLayer layer({400, 2, 4, 128});
  const auto compressed = layer.Compress(Options(Layout::kCompact, 1'000'000));
  ASSERT_TRUE(compressed.ok());
  const LayerPlan& plan = compressed->plan;
  ASSERT_EQ(plan.key_slots, 2 * (400 - 32 - 4));
  ASSERT_EQ(plan.value_slots, plan.key_slots);
  ASSERT_EQ(plan.key_fine_slots, plan.key_slots);
  const ReconstructedLayer all = Reconstruct(layer, *compressed);
  // What is left is eta = 0.012 of the energy that the anchors do not explain.
  EXPECT_LT(RelativeError(layer, Side::kKey, all.k), 0.003);
  EXPECT_LT(RelativeError(layer, Side::kValue, all.v), 0.004);
}

// |row - exact|^2 over the positions that have a slot of this stage, with and without all codes.
struct Repair {
  double with = 0;
  double without = 0;
};
Repair RepairOf(const MadeUpLayer& layer, const PlanOptions& options, Stage stage, Side side) {
  const auto compressed = layer.Compress(options);
  auto bare = layer.Compress(options);  // its scales will be zero
  EXPECT_TRUE(compressed.ok() && bare.ok());
  for (const char* name : {"scale_k", "scale_v", "fine_scale_k", "fine_scale_v"}) {
    const TensorPlan* tensor = bare->plan.Find(name);
    if (tensor == nullptr) continue;
    std::memset(bare->region.data() + tensor->offset, 0, static_cast<size_t>(tensor->bytes));
  }
  const ReconstructedLayer with = Reconstruct(layer, *compressed);
  const ReconstructedLayer without = Reconstruct(layer, *bare);
  const LayerPlan& plan = compressed->plan;
  const std::span<const std::byte> region = compressed->region.span();
  const SlotIndex slots = MapSlots(plan, region, side, stage);
  Repair repair;
  for (int64_t head = 0; head < plan.num_kv_heads; ++head) {
    for (int64_t t = 0; t < plan.prefix_len(); ++t) {
      const int64_t at = (head * plan.seq_len + t) * plan.head_dim;
      const std::vector<float> exact = layer.Exact(side, head, t);
      const float* a = side == Side::kKey ? &with.k[at] : &with.v[at];
      const float* b = side == Side::kKey ? &without.k[at] : &without.v[at];
      if (slots.SlotOf(head, t) < 0) continue;
      for (int64_t d = 0; d < plan.head_dim; ++d) {
        repair.with += std::pow(double{a[d]} - exact[d], 2);
        repair.without += std::pow(double{b[d]} - exact[d], 2);
      }
    }
  }
  EXPECT_GT(repair.without, 0);
  return repair;
}

// Share of the energy that one code leaves.
double LeftByOneCode(const MadeUpLayer& layer, Layout layout, Side side) {
  PlanOptions options = Options(layout, 100'000);
  options.fine_share_ppm = 0;
  const Repair repair = RepairOf(layer, options, Stage::kCoarse, side);
  return repair.with / repair.without;
}

TEST(AnchorKvTest, OneCodeWithEvenBitsLeavesAnEighthOfTheEnergy) {
  const MadeUpLayer layer({900, 2, 4, 128});
  EXPECT_NEAR(LeftByOneCode(layer, Layout::kCompact, Side::kValue), 0.1143, 0.01);
  EXPECT_NEAR(LeftByOneCode(layer, Layout::kPaper, Side::kValue), 0.1143, 0.01);
  EXPECT_NEAR(LeftByOneCode(layer, Layout::kPaper, Side::kKey), 0.1143, 0.01);
}

// Of 64 pairs, every fifth is ten times larger than the others: the front's 16 take all of them.
TEST(AnchorKvTest, KeysHaveTheirBitsWhereTheyAreLarge) {
  auto random = std::make_shared<std::mt19937>(5);
  const MadeUpLayer layer({900, 2, 4, 128}, [=](Side, int, int64_t, float* row) {
    std::normal_distribution<float> normal;
    for (int d = 0; d < 128; ++d) row[d] = (d % 64 % 5 == 0 ? 1.0f : 0.1f) * normal(*random);
  });
  EXPECT_NEAR(LeftByOneCode(layer, Layout::kPaper, Side::kKey), 0.1143, 0.02);
  EXPECT_LT(LeftByOneCode(layer, Layout::kCompact, Side::kKey), 0.04);
}

TEST(AnchorKvTest, TwoCodesLeaveAHundredthOfTheEnergy) {
  const MadeUpLayer layer({900, 2, 4, 128});
  for (const Side side : kSides) {
    const Repair repair = RepairOf(layer, Options(Layout::kCompact, 180'000), Stage::kFine, side);
    EXPECT_NEAR(repair.with / repair.without, 0.0108, 0.001) << SideName(side);
  }
}

TEST(AnchorKvTest, OnlyWhatHasAFirstCodeHasAFineSlot) {
  const MadeUpLayer layer({900, 2, 4, 64});
  const auto compressed = layer.Compress(Options(Layout::kCompact, 180'000));
  ASSERT_TRUE(compressed.ok());
  ASSERT_LT(compressed->plan.key_fine_slots, compressed->plan.key_slots);
  const LayerPlan plan = compressed->plan;
  const std::span<const std::byte> region = compressed->region.span();
  const SlotIndex coarse = MapSlots(plan, region, Side::kKey);
  const SlotIndex fine = MapSlots(plan, region, Side::kKey, Stage::kFine);
  int64_t count = 0;
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t t = 0; t < plan.prefix_len(); ++t) {
      if (fine.SlotOf(head, t) < 0) continue;
      ++count;
      EXPECT_GE(coarse.SlotOf(head, t), 0) << t;
    }
  }
  EXPECT_EQ(count, plan.key_fine_slots);
}

TEST(AnchorKvTest, PackingsHoldTheSameCodes) {
  const MadeUpLayer layer({700, 2, 4, 96});
  const auto planar = layer.Compress(Options(Layout::kCompact), 1, CodePacking::kPlanar);
  const auto linear = layer.Compress(Options(Layout::kCompact), 1, CodePacking::kLinear);
  ASSERT_TRUE(planar.ok());
  ASSERT_TRUE(linear.ok());
  EXPECT_FALSE(SameBytes(*planar, *linear));
  const ReconstructedLayer a = Reconstruct(layer, *planar, CodePacking::kPlanar);
  const ReconstructedLayer b = Reconstruct(layer, *linear, CodePacking::kLinear);
  EXPECT_EQ(a.k, b.k);
  EXPECT_EQ(a.v, b.v);
}

// ---- Where the slots go ----

// Keys of 0, so every position is attended to alike and a value's utility is the energy of its
// residual; values alike but for noise: a thousandth everywhere, 1 at `loud`.
MadeUpLayer LoudValues(const std::set<int64_t>& loud) {
  auto random = std::make_shared<std::mt19937>(5);
  return MadeUpLayer({1500, 1, 2, 64}, [=](Side side, int, int64_t position, float* row) {
    std::normal_distribution<float> normal(0, loud.contains(position) ? 1.0f : 0.001f);
    for (int d = 0; d < 64; ++d) row[d] = side == Side::kKey ? 0.0f : 1.0f + normal(*random);
  });
}

TEST(AnchorKvTest, FineSlotsGoToTheMostUsefulPositions) {
  std::set<int64_t> loud;
  for (int64_t t = 10; t < 1460; t += 20) loud.insert(t);
  PlanOptions options = Options(Layout::kCompact, 100'000);
  options.utility_pool_width = 1;
  const auto compressed = LoudValues(loud).Compress(options);
  ASSERT_TRUE(compressed.ok());
  const LayerPlan& plan = compressed->plan;
  ASSERT_GT(plan.value_fine_slots, static_cast<int64_t>(loud.size()));
  ASSERT_LT(plan.value_fine_slots, plan.value_slots / 2) << "by chance, half the loud ones miss";
  const std::span<const std::byte> region = compressed->region.span();
  const SlotIndex fine = MapSlots(plan, region, Side::kValue, Stage::kFine);
  for (const int64_t t : loud) EXPECT_GE(fine.SlotOf(0, t), 0) << t;
}

// Of first .. first + count - 1, the positions whose value has a residual.
int64_t NumRepaired(const CompressedLayer& layer, int64_t first, int64_t count) {
  const std::span<const std::byte> region = layer.region.span();
  const SlotIndex slots = MapSlots(layer.plan, region, Side::kValue);
  int64_t repaired = 0;
  for (int64_t t = first; t < first + count; ++t) repaired += slots.SlotOf(0, t) >= 0 ? 1 : 0;
  return repaired;
}

TEST(AnchorKvTest, SlotsGoToTheMostUsefulPositions) {
  std::set<int64_t> loud;
  for (int64_t t = 10; t < 1460; t += 5) loud.insert(t);
  PlanOptions options = Options(Layout::kCompact, 100'000);
  options.utility_pool_width = 1;
  const auto compressed = LoudValues(loud).Compress(options);
  ASSERT_TRUE(compressed.ok());
  ASSERT_GT(compressed->plan.value_slots, static_cast<int64_t>(loud.size()));
  for (const int64_t t : loud) EXPECT_EQ(NumRepaired(*compressed, t, 1), 1) << t;
}

// The queries look at the fifteen positions around one more than at others, whose keys are 0.
// Values differ by noise.
MadeUpLayer SeenAround(int64_t seen) {
  auto random = std::make_shared<std::mt19937>(6);
  return MadeUpLayer({1500, 1, 2, 64}, [=](Side side, int, int64_t position, float* row) {
    std::normal_distribution<float> normal(0, 1);
    for (int d = 0; d < 64; ++d) {
      const float noise = normal(*random);
      const float key = std::abs(position - seen) <= 7 ? 6.0f * noise : 0.0f;
      row[d] = side == Side::kValue ? 1.0f + 0.1f * noise : key;
    }
  });
}

TEST(AnchorKvTest, SlotsGoToTheNeighboursOfUsefulPositions) {
  const MadeUpLayer layer = SeenAround(700);
  PlanOptions options = Options(Layout::kCompact, 85'000);
  options.utility_pool_width = 127;
  const auto pooled = layer.Compress(options);
  options.utility_pool_width = 1;
  const auto alone = layer.Compress(options);
  ASSERT_TRUE(pooled.ok() && alone.ok());
  ASSERT_GT(pooled->plan.value_slots, 127);
  EXPECT_EQ(NumRepaired(*pooled, 700 - 63, 127), 127);
  EXPECT_LT(NumRepaired(*alone, 700 - 63, 127), 64);  // 15 and by chance a third of the others
}

TEST(AnchorKvTest, ThePapersLayoutRanksByTheUtilitiesAlone) {
  const MadeUpLayer layer({1500, 2, 4, 64});
  PlanOptions options = Options(Layout::kPaper, 100'000);
  const auto one = layer.Compress(options);
  options.utility_pool_width = 1;
  const auto other = layer.Compress(options);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_TRUE(SameBytes(*one, *other));
}

// ---- A case small enough to compute by hand ----

// D = 8, one head, W = 1, so k = 17; every row is a multiple of (1, 0, ...) or (0, 1, ...).
class ByHandTest : public testing::Test {
 protected:
  static constexpr int64_t kS = 70;

  ByHandTest() {
    layer_ = std::make_unique<MadeUpLayer>(
        LayerShape{kS, 1, 1, 8},
        [](Side side, int, int64_t position, float* row) {
          std::fill(row, row + 8, 0.0f);
          row[position % 2] = static_cast<float>(position % 4 + 1);  // 1 2 3 4 1 2 3 4 ...
          if (side == Side::kValue) row[position % 2] *= -1.0f;
        },
        1);
    options_.window_len = 1;
    options_.theta_ppm = 1'000'000;
    auto compressed = layer_->Compress(options_);
    EXPECT_TRUE(compressed.ok()) << compressed.status();
    if (compressed.ok()) compressed_ = *std::move(compressed);
  }

  PlanOptions options_;
  std::unique_ptr<MadeUpLayer> layer_;
  CompressedLayer compressed_;
};

TEST_F(ByHandTest, PlanHas17AnchorsAndAllResiduals) {
  EXPECT_EQ(compressed_.plan.num_anchors, 17);
  EXPECT_EQ(compressed_.plan.num_fitted, 12);
  EXPECT_EQ(compressed_.plan.prefix_len(), 69);
  EXPECT_EQ(compressed_.plan.key_slots, 65);
  EXPECT_EQ(compressed_.plan.key_fine_slots, 65);
}

TEST_F(ByHandTest, RowsPointAtTheFirstParallelAnchorWithTheirOwnLength) {
  const LayerPlan& plan = compressed_.plan;
  const auto region = std::span<const std::byte>(compressed_.region.span());
  const auto idx = TensorSpan<const uint8_t>(plan, region, "idx_k");
  // Anchors 0 and 1 are the sinks at positions 0 and 1: (1,0,...) and (0,2,...).
  for (int64_t pin = 0; pin < 4; ++pin) EXPECT_EQ(CompactIndex(plan, idx, 0, pin), pin);
  for (uint32_t t = 4; t < 69; ++t) {
    EXPECT_EQ(CompactIndex(plan, idx, 0, t), t % 2) << t;
    // <x, x_a>/|x_a| is the row's own length, and 1, 2, 3 and 4 are all the levels there are.
    for (const Side side : kSides) {
      EXPECT_FLOAT_EQ(
          CompactProjection(
              plan, TensorSpan<const uint8_t>(plan, region, side, "proj_k", "proj_v"),
              TensorSpan<const float>(plan, region, side, "proj_level_k", "proj_level_v"), 0, t),
          static_cast<float>(t % 4 + 1))
          << t;
    }
  }
}

TEST_F(ByHandTest, ReconstructionIsExact) {
  const ReconstructedLayer rebuilt = Reconstruct(*layer_, compressed_);
  for (int64_t t = 0; t < kS; ++t) {
    const std::vector<float> key = layer_->Exact(Side::kKey, 0, t);
    const std::vector<float> value = layer_->Exact(Side::kValue, 0, t);
    for (int d = 0; d < 8; ++d) {
      EXPECT_NEAR(rebuilt.k[t * 8 + d], key[d], 1e-6) << t;
      EXPECT_NEAR(rebuilt.v[t * 8 + d], value[d], 1e-6) << t;
    }
  }
}

// ---- Hostile data ----

double KeyError(const MadeUpLayer& layer, const PlanOptions& options) {
  const auto compressed = layer.Compress(options);
  EXPECT_TRUE(compressed.ok()) << compressed.status();
  EXPECT_EQ(VerifyLayer(compressed->plan, compressed->region.span()), absl::OkStatus());
  return RelativeError(layer, Side::kKey, Reconstruct(layer, *compressed).k);
}

TEST(AnchorKvTest, EqualRowsComeBack) {
  const MadeUpLayer layer({600, 2, 4, 64}, [](Side, int, int64_t, float* row) {
    for (int d = 0; d < 64; ++d) row[d] = 0.25f * static_cast<float>(d % 5) - 0.5f;
  });
  EXPECT_LT(KeyError(layer, Options(Layout::kCompact)), 1e-5);
  EXPECT_LT(KeyError(layer, Options(Layout::kPaper)), 1e-5);
}

TEST(AnchorKvTest, ZeroRowsComeBackAsZero) {
  const MadeUpLayer layer({600, 1, 2, 64},
                          [](Side, int, int64_t, float* row) { std::fill(row, row + 64, 0.0f); });
  EXPECT_EQ(KeyError(layer, Options(Layout::kCompact)), 0.0);
  EXPECT_EQ(KeyError(layer, Options(Layout::kPaper)), 0.0);
}

TEST(AnchorKvTest, SomeZeroRowsComeBackAsZero) {
  const MadeUpLayer::Fill base = MadeUpLayer::Clustered({600, 1, 2, 64}, 5);
  const MadeUpLayer layer({600, 1, 2, 64}, [&](Side side, int head, int64_t t, float* row) {
    base(side, head, t, row);
    if (t % 7 == 0) std::fill(row, row + 64, 0.0f);
  });
  const auto compressed = layer.Compress(Options(Layout::kCompact));
  ASSERT_TRUE(compressed.ok());
  const ReconstructedLayer rebuilt = Reconstruct(layer, *compressed);
  for (int64_t t = 0; t < 560; t += 7) {
    for (int d = 0; d < 64; ++d) EXPECT_EQ(rebuilt.k[t * 64 + d], 0.0f) << t;
  }
}

TEST(AnchorKvTest, HugeKeyBiasIsCarriedByTheAnchors) {
  const LayerShape shape = {800, 2, 4, 64};
  const MadeUpLayer layer(shape, MadeUpLayer::Clustered(shape, 3, 300.0f));
  EXPECT_LT(KeyError(layer, Options(Layout::kCompact)), 1e-3);
}

TEST(AnchorKvTest, TinySinkDoesNotSpoilTheStep) {
  // A sink of tiny norm that others point at: gamma is large, the projection is not.
  const MadeUpLayer::Fill base = MadeUpLayer::Clustered({600, 1, 2, 64}, 9);
  const MadeUpLayer layer({600, 1, 2, 64}, [&](Side side, int head, int64_t t, float* row) {
    base(side, head, t, row);
    if (t == 0) {
      for (int d = 0; d < 64; ++d) row[d] *= 1e-6f;
    }
  });
  EXPECT_LT(KeyError(layer, Options(Layout::kCompact, 200'000)), 0.05);
}

TEST(AnchorKvTest, NonFiniteInputNamesLayerAndFirstPosition) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const Layout layout : {Layout::kDense, Layout::kCompact}) {
      MadeUpLayer layer({700, 2, 4, 64});
      layer.Row(Side::kKey, 0, 650)[3] = kernels::ToBf16(bad);
      layer.Row(Side::kValue, 1, 311)[63] = kernels::ToBf16(-bad);
      const auto compressed = layer.Compress(Options(layout), 3);
      ASSERT_EQ(compressed.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(compressed.status().message()),
                  HasSubstr("layer 3, position 311: NaN or Inf in V of KV head 1"));
    }
  }
}

// Finite, but the product of two rows is not.
TEST(AnchorKvTest, RowsTooLargeToCompressNameLayerAndPosition) {
  for (const Side side : kSides) {
    MadeUpLayer layer({700, 2, 4, 64});
    for (const int64_t t : {411, 611}) {
      for (int d = 0; d < 64; ++d) layer.Row(side, 1, t)[d] = kernels::ToBf16(3e38f);
    }
    const auto compressed = layer.Compress(Options(Layout::kCompact));
    ASSERT_EQ(compressed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(compressed.status().message()), HasSubstr("too large to compress"));
    EXPECT_THAT(std::string(compressed.status().message()), HasSubstr("layer 3, position "));
  }
}

TEST(AnchorKvTest, RefusesAPlanOfAnotherShape) {
  const MadeUpLayer layer({300, 2, 4, 64});
  const PlanOptions options = Options(Layout::kCompact);
  kernels::Stream stream(1);
  Workspace workspace;
  const auto compress = [&](const Geometry& geometry, int64_t seq_len) {
    return MakeCompressor(options)
        ->Compress(layer.layer(), layer.observed(), PlanLayer(geometry, options, seq_len, 0),
                   CodePacking::kPlanar, workspace, stream)
        .status()
        .code();
  };
  EXPECT_EQ(compress({1, 2, 64}, 301), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(compress({1, 1, 64}, 300), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(compress({1, 2, 72}, 300), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(compress({1, 2, 64}, 300), absl::StatusCode::kOk);
}

// ---- Temporaries ----

TEST(AnchorKvTest, WorkspaceIsWhatItSaysAndAtMost18BytesAPositionBesideAnchorsAndTheirFit) {
  for (const LayerShape& shape : {LayerShape{129, 1, 1, 64}, LayerShape{1000, 3, 9, 64},
                                  LayerShape{4097, 1, 2, 64}, LayerShape{65, 2, 4, 64}}) {
    const MadeUpLayer layer(shape);
    for (const Layout layout : {Layout::kDense, Layout::kCompact, Layout::kPaper}) {
      const PlanOptions options = Options(layout);
      const LayerPlan plan = PlanLayer(layer.geometry(), options, shape.seq_len, 0);
      const auto compressor = MakeCompressor(options);
      const int64_t says = compressor->WorkspaceBytes(plan, shape.num_q_heads, 2);
      EXPECT_LE(says, 18 * plan.num_kv_heads * (plan.prefix_len() + 16) +
                          4 * plan.num_kv_heads * plan.num_anchors * plan.head_dim +
                          (6 + 2 * plan.head_dim) * NumFitRows(plan));
      Workspace workspace;
      kernels::Stream stream(2);
      ASSERT_TRUE(compressor
                      ->Compress(layer.layer(), layer.observed(), plan, CodePacking::kPlanar,
                                 workspace, stream)
                      .ok());
      EXPECT_EQ(workspace.bytes(), says);
    }
  }
}

TEST(AnchorKvTest, ADirtyWorkspaceChangesNothing) {
  const MadeUpLayer layer({500, 2, 4, 64});
  const PlanOptions options = Options(Layout::kCompact);
  const LayerPlan plan = PlanLayer(layer.geometry(), options, 500, 3);
  Workspace workspace;
  auto bytes = workspace.Reserve(1 << 20);
  ASSERT_TRUE(bytes.ok());
  std::memset(*bytes, 0xff, 1 << 20);
  kernels::Stream stream(1);
  const auto dirty = MakeCompressor(options)->Compress(layer.layer(), layer.observed(), plan,
                                                       CodePacking::kPlanar, workspace, stream);
  const auto clean = layer.Compress(options);
  ASSERT_TRUE(dirty.ok());
  ASSERT_TRUE(clean.ok());
  EXPECT_TRUE(SameBytes(*dirty, *clean));
}

// ---- None ----

TEST(NoneCompressorTest, KeepsEveryTokenRotatedAndRounded) {
  const MadeUpLayer layer({150, 2, 4, 64});
  const auto compressed = layer.Compress(Options(Layout::kDense));
  ASSERT_TRUE(compressed.ok());
  const ReconstructedLayer rebuilt = Reconstruct(layer, *compressed);
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t t = 0; t < 150; ++t) {
      const std::vector<float> key = layer.Exact(Side::kKey, head, t);
      const std::vector<float> value = layer.Exact(Side::kValue, head, t);
      for (int d = 0; d < 64; ++d) {
        const int64_t at = (head * 150 + t) * 64 + d;
        ASSERT_EQ(rebuilt.k[at], kernels::ToFloat(kernels::ToBf16(key[d])));
        ASSERT_EQ(rebuilt.v[at], value[d]);
      }
    }
  }
}

TEST(NoneCompressorTest, RefusesACompressedPlan) {
  const MadeUpLayer layer({300, 1, 1, 64});
  kernels::Stream stream(1);
  Workspace workspace;
  const auto result = MakeCompressor(Options(Layout::kDense))
                          ->Compress(layer.layer(), layer.observed(),
                                     PlanLayer({1, 1, 64}, Options(Layout::kCompact), 300, 0),
                                     CodePacking::kPlanar, workspace, stream);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MakeCompressorTest, PicksByLayout) {
  EXPECT_STREQ(MakeCompressor(Options(Layout::kDense))->name(), "none");
  EXPECT_STREQ(MakeCompressor(Options(Layout::kCompact))->name(), "anchorkv");
  EXPECT_STREQ(MakeCompressor(Options(Layout::kPaper))->name(), "anchorkv");
  EXPECT_STREQ(MakeCompressor(Options(Layout::kSnapKv))->name(), "snapkv");
  EXPECT_STREQ(MakeCompressor(Options(Layout::kRecent))->name(), "recent");
}

}  // namespace
}  // namespace anchorage::kv
