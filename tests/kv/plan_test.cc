#include "kv/plan/plan.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace anchorage::kv {
namespace {

const Geometry kLlama8b = {.num_layers = 32, .num_kv_heads = 8, .head_dim = 128};
const Geometry kSmolLm2 = {.num_layers = 30, .num_kv_heads = 3, .head_dim = 64};

PlanOptions Options(Layout layout, int64_t theta_ppm = 50'000) {
  PlanOptions options;
  options.layout = layout;
  options.theta_ppm = theta_ppm;
  return options;
}

LayerPlan Plan(const Geometry& geometry, const PlanOptions& options, int64_t seq_len) {
  EXPECT_EQ(CheckPlan(geometry, options, seq_len, 0), "");
  return PlanLayer(geometry, options, seq_len, 0);
}

int64_t TensorBytes(const LayerPlan& plan) {
  int64_t bytes = 0;
  for (const TensorPlan& tensor : plan.tensors) bytes += tensor.bytes;
  return bytes;
}

// ---- Golden values ----

struct Golden {
  Geometry geometry;
  Layout layout;
  int64_t seq_len;
  int64_t theta_ppm;
  int64_t base_bytes;
  int64_t slots;  // of both sides
  int64_t fine_slots = 0;
};

class PlanGoldenTest : public testing::TestWithParam<Golden> {};

TEST_P(PlanGoldenTest, BaseAndSlotsAreExact) {
  const Golden& golden = GetParam();
  const LayerPlan plan =
      Plan(golden.geometry, Options(golden.layout, golden.theta_ppm), golden.seq_len);
  EXPECT_EQ(plan.base_bytes, golden.base_bytes);
  EXPECT_EQ(plan.key_slots + plan.value_slots, golden.slots);
  EXPECT_EQ(plan.key_fine_slots + plan.value_fine_slots, golden.fine_slots);
  EXPECT_FALSE(plan.budget_infeasible);
}

INSTANTIATE_TEST_SUITE_P(
    Compact, PlanGoldenTest,
    testing::Values(
        Golden{kSmolLm2, Layout::kCompact, 4096, 50'000, 54'344, 4'004, 1'457},
        Golden{kSmolLm2, Layout::kCompact, 8192, 50'000, 95'912, 8'504, 3'130},
        Golden{kLlama8b, Layout::kCompact, 32'768, 50'000, 1'414'024, 109'053, 43'843},
        Golden{kLlama8b, Layout::kCompact, 65'536, 50'000, 2'958'152, 215'427, 86'541},
        Golden{kLlama8b, Layout::kCompact, 131'072, 50'000, 4'858'696, 452'629, 182'416},
        Golden{kSmolLm2, Layout::kCompact, 8192, 100'000, 95'912, 20'737, 8'373},
        Golden{kLlama8b, Layout::kCompact, 32'768, 100'000, 1'414'024, 247'218, 103'057},
        Golden{kSmolLm2, Layout::kCompact, 4096, 200'000, 54'344, 22'353, 9'322}));

INSTANTIATE_TEST_SUITE_P(
    Paper, PlanGoldenTest,
    testing::Values(Golden{kLlama8b, Layout::kPaper, 32'768, 50'000, 3'387'336, 91'056},
                    Golden{kSmolLm2, Layout::kPaper, 8192, 50'000, 287'648, 1'313}));

// ---- Layouts that evict positions ----

struct RetainedGolden {
  Geometry geometry;
  int64_t seq_len;
  int64_t theta_ppm;
  int64_t retained;  // n
  int64_t bytes;     // n H (4 D + 4)
};

class PlanRetainedTest : public testing::TestWithParam<RetainedGolden> {};

TEST_P(PlanRetainedTest, KeepsAsManyRowsAsTheBudgetHasRoomFor) {
  const RetainedGolden& golden = GetParam();
  for (const Layout layout : {Layout::kSnapKv, Layout::kRecent}) {
    const LayerPlan plan = Plan(golden.geometry, Options(layout, golden.theta_ppm), golden.seq_len);
    EXPECT_EQ(plan.layout, layout);
    EXPECT_EQ(plan.num_retained, golden.retained);
    EXPECT_EQ(plan.num_rows(), golden.retained);
    EXPECT_EQ(plan.bytes, golden.bytes);
    EXPECT_EQ(TensorBytes(plan), golden.bytes);
    EXPECT_LE(plan.bytes, plan.budget_bytes);
    EXPECT_GT(plan.bytes + golden.geometry.num_kv_heads * (4 * golden.geometry.head_dim + 4),
              plan.budget_bytes);
    EXPECT_FALSE(plan.budget_infeasible);
    EXPECT_EQ(plan.budget_bytes,
              Plan(golden.geometry, Options(Layout::kCompact, golden.theta_ppm), golden.seq_len)
                  .budget_bytes);
  }
}

// floor(157,286 / 780), floor(314,572 / 780), floor(629,145 / 780), floor(6,710,886 / 4,128); the
// last one has the floor of 128 dense tokens, floor(98,304 / 780).
INSTANTIATE_TEST_SUITE_P(Sizes, PlanRetainedTest,
                         testing::Values(RetainedGolden{kSmolLm2, 4096, 50'000, 201, 156'780},
                                         RetainedGolden{kSmolLm2, 8192, 50'000, 403, 314'340},
                                         RetainedGolden{kSmolLm2, 8192, 100'000, 806, 628'680},
                                         RetainedGolden{kLlama8b, 32'768, 50'000, 1625, 6'708'000},
                                         RetainedGolden{kSmolLm2, 1000, 50'000, 126, 98'280}));

TEST(PlanTest, SnapKvKeepsTheWindowAndTheRestByScore) {
  const LayerPlan plan = Plan(kSmolLm2, Options(Layout::kSnapKv), 4096);
  EXPECT_EQ(plan.window_len, 32);
  EXPECT_EQ(plan.num_pins, 0);
  EXPECT_EQ(plan.num_scored, 201 - 32);
}

TEST(PlanTest, RecentKeepsPinsAndObservesNothing) {
  const LayerPlan plan = Plan(kSmolLm2, Options(Layout::kRecent), 4096);
  EXPECT_EQ(plan.window_len, 0);
  EXPECT_EQ(plan.num_pins, 4);
  EXPECT_EQ(plan.num_scored, 0);
}

TEST(PlanTest, ShortPromptsPassThroughWithoutEviction) {
  for (const Layout layout : {Layout::kSnapKv, Layout::kRecent}) {
    EXPECT_EQ(Plan(kSmolLm2, Options(layout), 128).layout, Layout::kDense);
    EXPECT_EQ(Plan(kSmolLm2, Options(layout), 129).layout, layout);
  }
}

TEST(PlanTest, EvictionNeverGoesBelowWhatItsLayoutIsMadeOf) {
  PlanOptions options = Options(Layout::kSnapKv);
  options.floor_tokens = 0;  // 5 % of 200 tokens are 9 rows
  LayerPlan plan = Plan(kSmolLm2, options, 200);
  EXPECT_EQ(plan.num_retained, 32);
  EXPECT_EQ(plan.num_scored, 0);
  EXPECT_TRUE(plan.budget_infeasible);

  options.layout = Layout::kRecent;
  options.num_pins = 20;
  plan = Plan(kSmolLm2, options, 200);
  EXPECT_EQ(plan.num_retained, 9);
  EXPECT_EQ(plan.num_pins, 8);
  EXPECT_FALSE(plan.budget_infeasible);
  options.theta_ppm = 1;
  EXPECT_EQ(Plan(kSmolLm2, options, 200).num_retained, 1);
  EXPECT_TRUE(Plan(kSmolLm2, options, 200).budget_infeasible);
}

// ---- Anchors and slots ----

TEST(PlanTest, PaperBaseMatchesEquation13AtFourLengths) {
  const PlanOptions options = Options(Layout::kPaper);
  EXPECT_EQ(Plan(kLlama8b, options, 16'384).base_bytes, 1'691'592);
  EXPECT_EQ(Plan(kLlama8b, options, 32'768).base_bytes, 3'387'336);
  EXPECT_EQ(Plan(kLlama8b, options, 65'536).base_bytes, 6'778'824);
  EXPECT_EQ(Plan(kLlama8b, options, 131'072).base_bytes, 13'561'800);
  EXPECT_EQ(Plan(kLlama8b, options, 32'768).full_bytes, 134'217'728);
}

TEST(PlanTest, PaperSplitsAnchorsLikeThePaperAt32K) {
  const LayerPlan plan = Plan(kLlama8b, Options(Layout::kPaper), 32'768);
  EXPECT_EQ(plan.num_anchors, 256);
  EXPECT_EQ(plan.num_pins, 0);
  EXPECT_EQ(plan.num_scored, 156);
  EXPECT_EQ(plan.num_uniform, 68);
}

TEST(PlanTest, CompactPinsSinksAndFitsTheRest) {
  const LayerPlan plan = Plan(kLlama8b, Options(Layout::kCompact), 32'768);
  EXPECT_EQ(plan.num_anchors, 256);
  EXPECT_EQ(plan.num_pins, 4);
  EXPECT_EQ(plan.num_fitted, 220);
  EXPECT_EQ(plan.num_scored, 0);
  EXPECT_EQ(plan.num_uniform, 0);
}

TEST(PlanTest, PaperBuysOneMoreValueSlotWhenTheRestAllows) {
  const LayerPlan plan = Plan(kSmolLm2, Options(Layout::kPaper), 8192);
  EXPECT_EQ(plan.key_slots, 656);
  EXPECT_EQ(plan.value_slots, 657);
  const LayerPlan even = Plan(kLlama8b, Options(Layout::kPaper), 32'768);
  EXPECT_EQ(even.key_slots, 45'528);
  EXPECT_EQ(even.value_slots, 45'528);
}

TEST(PlanTest, PaperHasNoCapOf512Anchors) {
  EXPECT_EQ(Plan(kLlama8b, Options(Layout::kPaper), 131'072).num_anchors, 1024);
  EXPECT_EQ(Plan(kLlama8b, Options(Layout::kCompact), 131'072).num_anchors, 512);
}

TEST(PlanTest, IndicesTakeJustEnoughBits) {
  const PlanOptions options = Options(Layout::kCompact);
  const auto bits = [&](int64_t anchors) {
    const LayerPlan plan = Plan({1, 1, 64}, options, anchors * 128);
    EXPECT_EQ(plan.num_anchors, anchors);
    return plan.Find("idx_k")->bytes / ((plan.prefix_len() + 7) / 8);
  };
  EXPECT_EQ(bits(48), 6);
  EXPECT_EQ(bits(64), 6);
  EXPECT_EQ(bits(65), 7);
  EXPECT_EQ(bits(256), 8);
  EXPECT_EQ(bits(257), 9);
  EXPECT_EQ(bits(512), 9);
}

TEST(PlanTest, NoByteLiesIdleAtFiveTimes) {
  for (const int64_t seq_len : {4096, 8000}) {
    const LayerPlan plan = Plan(kSmolLm2, Options(Layout::kCompact, 200'000), seq_len);
    EXPECT_GT(plan.key_fine_slots, 0);
    EXPECT_GT(plan.bytes + 2 * (64 / 4 + 2), plan.budget_bytes) << seq_len;
  }
}

TEST(PlanTest, FineSlotsTakeTheirShareAndWhatFirstCodesHaveNoUseFor) {
  PlanOptions options = Options(Layout::kCompact);
  const auto plan_at = [&](int64_t millibits) {
    const LayerPlan plan = PlanLayerAtRate(kSmolLm2, options, 4096, millibits);
    EXPECT_LE(plan.key_fine_slots, plan.key_slots);
    EXPECT_LE(plan.value_fine_slots, plan.value_slots);
    return plan;
  };
  // 1,000 millibits of 2 x 3 x 4,064 x 64 coordinates are 195,072 bytes: 3 tenths less the index of
  // the fine slots (4,640) are 2,993 slots of 18 bytes.
  EXPECT_EQ(plan_at(1000).key_fine_slots + plan_at(1000).value_fine_slots, 2'993);
  EXPECT_EQ(plan_at(0).key_fine_slots + plan_at(0).key_slots, 0);
  EXPECT_EQ(plan_at(5000).key_fine_slots, 3 * (4064 - 4));
  options.fine_share_ppm = 0;
  EXPECT_EQ(plan_at(1500).key_fine_slots, 0);
  EXPECT_EQ(plan_at(5000).key_fine_slots, 3 * (4064 - 4));
  options.fine_share_ppm = 1'000'000;
  EXPECT_NEAR(plan_at(1000).key_fine_slots, plan_at(1000).key_slots, 1);
}

// ---- Every length ----

struct Shape {
  Geometry geometry;
  Layout layout;
  int64_t theta_ppm;
};

class PlanLengthTest : public testing::TestWithParam<Shape> {};

TEST_P(PlanLengthTest, FrugalMonotoneAndConsistentFrom1To3000Tokens) {
  const PlanOptions options = Options(GetParam().layout, GetParam().theta_ppm);
  int64_t last_budget = 0;
  for (int64_t seq_len = 1; seq_len <= 3000; ++seq_len) {
    const LayerPlan plan = Plan(GetParam().geometry, options, seq_len);
    EXPECT_GE(plan.budget_bytes, last_budget) << seq_len;
    last_budget = plan.budget_bytes;
    ASSERT_FALSE(plan.budget_infeasible) << seq_len;
    ASSERT_LE(plan.bytes, plan.budget_bytes) << seq_len;
    ASSERT_LE(plan.bytes, plan.full_bytes) << seq_len;
    ASSERT_EQ(TensorBytes(plan), plan.bytes) << seq_len;
    if (plan.layout == Layout::kDense) {
      ASSERT_LE(seq_len, 128);
      continue;
    }
    if (EvictsPositions(plan.layout)) {
      ASSERT_GT(plan.num_retained, plan.num_pins + plan.num_scored) << seq_len;
      ASSERT_LT(plan.num_retained, seq_len);
      continue;
    }
    const int64_t rows = plan.num_anchors - plan.num_fitted;  // anchors that are a position's own
    const int64_t cap = plan.num_kv_heads * (seq_len - rows);
    ASSERT_LE(plan.key_slots, cap) << seq_len;
    ASSERT_LE(plan.value_slots, cap) << seq_len;
    ASSERT_LE(plan.key_fine_slots, plan.key_slots) << seq_len;
    ASSERT_LE(plan.value_fine_slots, plan.value_slots) << seq_len;
    ASSERT_EQ(plan.num_pins + plan.num_fitted + plan.num_scored + plan.num_uniform,
              plan.num_anchors - plan.window_len);
    ASSERT_LE(plan.num_anchors - plan.window_len, plan.prefix_len());
  }
}

std::string ShapeName(const testing::TestParamInfo<Shape>& info) {
  return std::string(LayoutName(info.param.layout)) + "_H" +
         std::to_string(info.param.geometry.num_kv_heads) + "_D" +
         std::to_string(info.param.geometry.head_dim) + "_theta" +
         std::to_string(info.param.theta_ppm);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PlanLengthTest,
    testing::Values(
        Shape{kSmolLm2, Layout::kCompact, 50'000}, Shape{kSmolLm2, Layout::kCompact, 100'000},
        Shape{kSmolLm2, Layout::kCompact, 200'000}, Shape{kSmolLm2, Layout::kCompact, 1'000'000},
        Shape{kLlama8b, Layout::kCompact, 50'000}, Shape{{1, 1, 80}, Layout::kCompact, 50'000},
        Shape{{1, 7, 96}, Layout::kCompact, 33'333}, Shape{{1, 32, 256}, Layout::kCompact, 50'000},
        Shape{{1, 5, 72}, Layout::kCompact, 100'000}, Shape{kLlama8b, Layout::kPaper, 50'000},
        Shape{kSmolLm2, Layout::kPaper, 100'000}, Shape{kSmolLm2, Layout::kSnapKv, 100'000},
        Shape{{1, 5, 72}, Layout::kRecent, 1'000'000}),
    ShapeName);

TEST(PlanTest, ShortPromptsKeepEveryResidual) {
  const LayerPlan plan = Plan(kLlama8b, Options(Layout::kCompact), 400);
  EXPECT_EQ(plan.key_slots, 8 * (400 - 32 - 4));
  EXPECT_EQ(plan.value_slots, plan.key_slots);
}

TEST(PlanTest, RatioHoldsFrom2560Tokens) {
  const PlanOptions options = Options(Layout::kCompact);
  for (const int64_t seq_len : {2560, 4096, 8191, 100'000}) {
    const LayerPlan plan = Plan(kSmolLm2, options, seq_len);
    EXPECT_LE(plan.bytes * 20, plan.full_bytes) << seq_len;
  }
  EXPECT_GT(Plan(kSmolLm2, options, 2500).bytes * 20, Plan(kSmolLm2, options, 2500).full_bytes);
}

TEST(PlanTest, PassesShortPromptsThrough) {
  const PlanOptions options = Options(Layout::kCompact);
  EXPECT_EQ(Plan(kSmolLm2, options, 128).layout, Layout::kDense);
  EXPECT_EQ(Plan(kSmolLm2, options, 128).bytes, 4 * 128 * 3 * 64);
  EXPECT_EQ(Plan(kSmolLm2, options, 129).layout, Layout::kCompact);
}

TEST(PlanTest, DenseCostsFourBytesPerCoordinate) {
  const LayerPlan plan = Plan(kSmolLm2, Options(Layout::kDense), 1000);
  EXPECT_EQ(plan.layout, Layout::kDense);
  EXPECT_EQ(plan.bytes, 4 * 1000 * 3 * 64);
  EXPECT_EQ(plan.budget_bytes, plan.bytes);
  EXPECT_FALSE(plan.budget_infeasible);
}

TEST(PlanTest, TensorsAreAlignedAndDoNotOverlap) {
  for (const Layout layout : {Layout::kCompact, Layout::kPaper, Layout::kDense}) {
    const LayerPlan plan = Plan({1, 3, 72}, Options(layout), 70'001);
    int64_t end = 0;
    std::set<std::string> names;
    for (const TensorPlan& tensor : plan.tensors) {
      EXPECT_EQ(tensor.offset % kTensorAlignment, 0) << tensor.name;
      EXPECT_GE(tensor.offset, end) << tensor.name;
      EXPECT_LT(tensor.offset - end, kTensorAlignment) << tensor.name;
      end = tensor.offset + tensor.bytes;
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
      EXPECT_EQ(plan.Find(tensor.name), &tensor);
    }
    EXPECT_EQ(plan.region_bytes, (end + 63) / 64 * 64);
    EXPECT_EQ(plan.Find("nothing"), nullptr);
  }
}

// ---- Lowered floors ----

TEST(PlanTest, LoweredFloorGivesUpAnchorsBeforeItGivesUpTheBudget) {
  PlanOptions options = Options(Layout::kCompact);
  options.floor_tokens = 0;
  const LayerPlan roomy = Plan(kLlama8b, options, 4096);
  EXPECT_EQ(roomy.num_anchors, 48);
  EXPECT_FALSE(roomy.budget_infeasible);

  const LayerPlan tight = Plan(kLlama8b, options, 540);
  EXPECT_LT(tight.num_anchors, 48);
  EXPECT_GE(tight.num_anchors, 40);
  EXPECT_FALSE(tight.budget_infeasible);
  EXPECT_LE(tight.bytes, tight.budget_bytes);

  const LayerPlan impossible = Plan(kLlama8b, options, 400);
  EXPECT_EQ(impossible.num_anchors, 40);
  EXPECT_TRUE(impossible.budget_infeasible);
  EXPECT_EQ(impossible.bytes, impossible.base_bytes);
  EXPECT_GT(impossible.bytes, impossible.budget_bytes);
  EXPECT_EQ(impossible.key_slots + impossible.value_slots, 0);
}

TEST(PlanTest, LoweredFloorKeepsTheMostAnchorsThatFit) {
  PlanOptions options = Options(Layout::kCompact);
  options.floor_tokens = 0;
  const LayerPlan plan = Plan(kLlama8b, options, 540);
  const int64_t bytes_per_anchor = 2 * 8 * (128 + 1) + 4 * 8;
  EXPECT_GT(plan.base_bytes + bytes_per_anchor, plan.budget_bytes);
}

TEST(PlanTest, DensePassThroughAboveALoweredFloorIsReported) {
  PlanOptions options = Options(Layout::kCompact);
  options.floor_tokens = 16;
  const LayerPlan plan = Plan(kLlama8b, options, 100);
  EXPECT_EQ(plan.layout, Layout::kDense);
  EXPECT_TRUE(plan.budget_infeasible);
}

// ---- Requests ----

TEST(PlanTest, RequestAddsLayersAndGeneratedBlocks) {
  const RequestPlan request = PlanRequest(kSmolLm2, Options(Layout::kCompact), 4096, 100);
  ASSERT_EQ(request.layers.size(), 30u);
  const LayerPlan& layer = request.layers.front();
  EXPECT_EQ(request.prompt_bytes, 30 * layer.bytes);
  EXPECT_EQ(request.region_bytes, 30 * layer.region_bytes);
  EXPECT_EQ(request.full_bytes, 30 * layer.full_bytes);
  EXPECT_EQ(request.generated_blocks, 4);
  EXPECT_EQ(request.generated_block_bytes, 30 * 4 * 32 * 3 * 64);
  EXPECT_EQ(request.bytes, request.region_bytes + 4 * request.generated_block_bytes);
  for (const LayerPlan& each : request.layers) EXPECT_EQ(each.budget_bytes, layer.budget_bytes);
}

TEST(PlanTest, NoNewTokensNeedNoBlocks) {
  EXPECT_EQ(PlanRequest(kSmolLm2, Options(Layout::kCompact), 10, 0).generated_blocks, 0);
  EXPECT_EQ(PlanRequest(kSmolLm2, Options(Layout::kCompact), 10, 1).generated_blocks, 1);
  EXPECT_EQ(PlanRequest(kSmolLm2, Options(Layout::kCompact), 10, 33).generated_blocks, 2);
}

TEST(PlanTest, LargestSaneRequestDoesNotOverflow) {
  const Geometry huge = {.num_layers = 1024, .num_kv_heads = 1024, .head_dim = 512};
  const int64_t tokens = int64_t{1} << 27;
  ASSERT_EQ(CheckPlan(huge, Options(Layout::kDense), tokens, tokens), "");
  const RequestPlan request = PlanRequest(huge, Options(Layout::kDense), tokens, tokens);
  EXPECT_EQ(request.full_bytes, int64_t{4} << (27 + 10 + 9 + 10));
  EXPECT_EQ(request.bytes, 2 * request.full_bytes);
}

TEST(PlanTest, LargestCompactLayerStaysInsideItsBudget) {
  const Geometry geometry = {.num_layers = 1, .num_kv_heads = 31, .head_dim = 512};
  const int64_t tokens = int64_t{1} << 27;
  const LayerPlan plan = Plan(geometry, Options(Layout::kCompact, 1'000'000), tokens);
  EXPECT_LE(plan.bytes, plan.budget_bytes);
  EXPECT_EQ(plan.budget_bytes, plan.full_bytes);
  EXPECT_EQ(plan.key_slots, 31 * (tokens - 32 - 4));
}

// ---- Bad numbers ----

TEST(CheckPlanTest, NamesWhatIsWrong) {
  const PlanOptions good = Options(Layout::kCompact);
  const auto complains = [](const Geometry& geometry, const PlanOptions& options, int64_t seq_len,
                            int64_t max_new, const std::string& about) {
    const std::string problem = CheckPlan(geometry, options, seq_len, max_new);
    EXPECT_NE(problem.find(about), std::string::npos) << "'" << problem << "' about " << about;
  };
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{1025}, most}) {
    complains({bad, 8, 128}, good, 1000, 0, "layers");
    complains({32, bad, 128}, good, 1000, 0, "KV heads");
  }
  for (const int64_t bad : {int64_t{0}, int64_t{-8}, int64_t{4}, int64_t{100}, int64_t{520}}) {
    complains({32, 8, bad}, good, 1000, 0, "head dimension");
  }
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, (int64_t{1} << 27) + 1, most}) {
    complains(kLlama8b, good, bad, 0, "prompt tokens");
  }
  for (const int64_t bad : {int64_t{-1}, (int64_t{1} << 27) + 1, most}) {
    complains(kLlama8b, good, 1000, bad, "new tokens");
  }
  PlanOptions options = good;
  options.theta_ppm = 0;
  complains(kLlama8b, options, 1000, 0, "retained share");
  options = good;
  options.window_len = 481;
  complains(kLlama8b, options, 1000, 0, "window");
  options = good;
  options.num_pins = -1;
  complains(kLlama8b, options, 1000, 0, "pinned");
  options = good;
  options.rho_ppm = 1'000'001;
  complains(kLlama8b, options, 1000, 0, "scored share");
  options = good;
  options.pool_width = 6;
  complains(kLlama8b, options, 1000, 0, "pooling width");
  options = good;
  options.utility_pool_width = 8;
  complains(kLlama8b, options, 1000, 0, "pooling width");
  options = good;
  options.utility_pool_width = 4097;
  complains(kLlama8b, options, 1000, 0, "utilities' pooling width");
  options = good;
  options.fine_share_ppm = 1'000'001;
  complains(kLlama8b, options, 1000, 0, "fine slots");
  options = good;
  options.profile = {{0, 1000}, std::vector<int64_t>(60, 5)};
  complains(kLlama8b, options, 1000, 0, "the profile has 30 layers, the model 32");
  options.profile = {{0, 1000}, std::vector<int64_t>(64, 5), 3, 64};
  complains(kLlama8b, options, 1000, 0, "a model of 3 KV heads of 64, this one has 8 of 128");
  options.profile = {{0, 1000}, std::vector<int64_t>(64, 5), 8, 128};
  EXPECT_EQ(CheckPlan(kLlama8b, options, 1000, 0), "");
  options = good;
  options.floor_tokens = -1;
  complains(kLlama8b, options, 1000, 0, "floor");
  options = good;
  options.layout = static_cast<Layout>(9);
  complains(kLlama8b, options, 1000, 0, "unknown layout");
  complains({1, 1024, 64}, good, int64_t{1} << 22, 0, "32-bit slot numbers");
}

TEST(ThetaPpmFromRatioTest, RoundsDownAndRefusesNonsense) {
  EXPECT_EQ(ThetaPpmFromRatio(20), 50'000);
  EXPECT_EQ(ThetaPpmFromRatio(10), 100'000);
  EXPECT_EQ(ThetaPpmFromRatio(3), 333'333);
  EXPECT_EQ(ThetaPpmFromRatio(1.5), 666'666);
  EXPECT_EQ(ThetaPpmFromRatio(1), 1'000'000);
  EXPECT_EQ(ThetaPpmFromRatio(0.5), 0);
  EXPECT_EQ(ThetaPpmFromRatio(std::numeric_limits<double>::quiet_NaN()), 0);
  EXPECT_EQ(ThetaPpmFromRatio(std::numeric_limits<double>::infinity()), 0);
  EXPECT_EQ(ThetaPpmFromRatio(2e6), 0);
}

TEST(PlanFingerprintTest, EveryFieldCounts) {
  const PlanOptions base = Options(Layout::kCompact);
  std::set<uint64_t> seen = {PlanFingerprint(kLlama8b, base)};
  const auto differs = [&seen](const Geometry& geometry, const PlanOptions& options) {
    EXPECT_TRUE(seen.insert(PlanFingerprint(geometry, options)).second);
  };
  differs({31, 8, 128}, base);
  differs({32, 7, 128}, base);
  differs({32, 8, 120}, base);
  PlanOptions options = base;
  for (const Layout layout : {Layout::kPaper, Layout::kSnapKv, Layout::kRecent}) {
    options.layout = layout;
    differs(kLlama8b, options);
  }
  for (int64_t PlanOptions::*field :
       {&PlanOptions::theta_ppm, &PlanOptions::window_len, &PlanOptions::num_pins,
        &PlanOptions::rho_ppm, &PlanOptions::pool_width, &PlanOptions::utility_pool_width,
        &PlanOptions::fine_share_ppm, &PlanOptions::floor_tokens}) {
    options = base;
    options.*field += 2;
    differs(kLlama8b, options);
  }
  options = base;
  options.seed += 1;
  differs(kLlama8b, options);
  options = base;
  options.profile = {{0, 1000}, std::vector<int64_t>(64, 5)};
  differs(kLlama8b, options);
  options.profile.nanonats[63] = 4;
  differs(kLlama8b, options);
  options.profile.millibits[1] = 1001;
  differs(kLlama8b, options);
  EXPECT_EQ(PlanFingerprint(kLlama8b, base), PlanFingerprint(kLlama8b, base));
}

TEST(NanonatsLeftTest, IsWhatTheCurveSaysAtTheRateThatWasPlanned) {
  PlanOptions options;
  EXPECT_EQ(NanonatsLeft(options, PlanLayer(kLlama8b, options, 4096, 0), 0), 0) << "no profile";
  options.profile = {{0, 1000, 4000}, std::vector<int64_t>(3 * 32, 700)};
  for (size_t i = 0; i < 3; ++i) options.profile.nanonats[3 * 5 + i] = 9000 - 3000 * i;
  const LayerPlan at_rate = PlanLayerAtRate(kLlama8b, options, 4096, 500);
  EXPECT_NEAR(NanonatsLeft(options, at_rate, 5), 7500, 1);
  EXPECT_EQ(NanonatsLeft(options, at_rate, 4), 700);
  PlanOptions paper = options;
  paper.layout = Layout::kPaper;
  EXPECT_EQ(NanonatsLeft(paper, PlanLayer(kLlama8b, paper, 4096, 5), 5), 0) << "not its curve";
}

}  // namespace
}  // namespace anchorage::kv
