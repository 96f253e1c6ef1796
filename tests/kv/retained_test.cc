// The compressors that evict positions: which ones they keep, and that those are exact.

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/anchor.h"
#include "kv/layer_cache.h"
#include "kv/layouts/reconstruct.h"
#include "kv/tensor_span.h"
#include "tests/kv/layer_fixture.h"

namespace anchorage::kv {
namespace {

using testing::HasSubstr;
using Positions = std::vector<std::vector<uint32_t>>;  // [H][n]

PlanOptions Options(Layout layout, int64_t theta_ppm) {
  PlanOptions options;
  options.layout = layout;
  options.theta_ppm = theta_ppm;
  return options;
}

Positions StoredPositions(const CompressedLayer& layer) {
  const auto stored = TensorSpan<const uint32_t>(layer.plan, layer.region.span(), "retained_pos");
  Positions positions;
  for (int64_t head = 0; head < layer.plan.num_kv_heads; ++head) {
    const auto first = stored.begin() + head * layer.plan.num_retained;
    positions.emplace_back(first, first + layer.plan.num_retained);
  }
  return positions;
}

// By the scores of the reference, a full sort and nothing else.
Positions BestByReference(const MadeUpLayer& layer, const LayerPlan& plan, int pool_width) {
  const int64_t prefix = plan.prefix_len();
  std::vector<double> scores(static_cast<size_t>(plan.num_kv_heads * prefix));
  kernels::reference::ScorePrefix(layer.layer().kv, layer.observed(), layer.rope(),
                                  static_cast<int>(plan.window_len), pool_width, scores.data());
  Positions positions;
  for (int64_t head = 0; head < plan.num_kv_heads; ++head) {
    std::vector<uint32_t> order(static_cast<size_t>(prefix));
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return scores[head * prefix + a] > scores[head * prefix + b];
    });
    order.resize(static_cast<size_t>(plan.num_retained - plan.window_len));
    for (int64_t t = prefix; t < plan.seq_len; ++t) order.push_back(static_cast<uint32_t>(t));
    std::sort(order.begin(), order.end());
    positions.push_back(order);
  }
  return positions;
}

class RetainedShapeTest : public testing::TestWithParam<LayerShape> {};

TEST_P(RetainedShapeTest, SnapKvKeepsTheWindowAndWhatItLooksAt) {
  const MadeUpLayer layer(GetParam());
  for (const int64_t theta_ppm : {100'000, 400'000}) {
    const PlanOptions options = Options(Layout::kSnapKv, theta_ppm);
    const auto compressed = layer.Compress(options);
    ASSERT_TRUE(compressed.ok()) << compressed.status();
    EXPECT_EQ(StoredPositions(*compressed),
              BestByReference(layer, compressed->plan, static_cast<int>(options.pool_width)));
  }
}

TEST_P(RetainedShapeTest, RecentKeepsTheFirstAndTheLast) {
  const MadeUpLayer layer(GetParam());
  const auto compressed = layer.Compress(Options(Layout::kRecent, 200'000));
  ASSERT_TRUE(compressed.ok()) << compressed.status();
  const int64_t retained = compressed->plan.num_retained;
  for (const std::vector<uint32_t>& head : StoredPositions(*compressed)) {
    for (int64_t i = 0; i < retained; ++i) {
      EXPECT_EQ(head[i], i < 4 ? i : compressed->plan.seq_len - retained + i);
    }
  }
}

TEST_P(RetainedShapeTest, RowsAreThoseOfADenseCache) {
  const MadeUpLayer layer(GetParam());
  const auto dense = layer.Compress(Options(Layout::kDense, 1'000'000));
  ASSERT_TRUE(dense.ok());
  const auto all = ReconstructLayer(dense->plan, dense->region.span(), layer.rope(),
                                    kernels::CodePacking::kPlanar);
  ASSERT_TRUE(all.ok());
  for (const Layout layout : {Layout::kSnapKv, Layout::kRecent}) {
    const auto compressed = layer.Compress(Options(layout, 200'000));
    ASSERT_TRUE(compressed.ok()) << compressed.status();
    EXPECT_EQ(VerifyLayer(compressed->plan, compressed->region.span()), absl::OkStatus());
    EXPECT_EQ(compressed->checksum, Checksum(compressed->region.span()));
    const auto kept = ReconstructLayer(compressed->plan, compressed->region.span(), layer.rope(),
                                       kernels::CodePacking::kPlanar);
    ASSERT_TRUE(kept.ok());
    const Positions positions = StoredPositions(*compressed);
    const int64_t dim = compressed->plan.head_dim;
    ASSERT_EQ(kept->k.size(), positions.size() * positions[0].size() * dim);
    ASSERT_EQ(kept->v.size(), kept->k.size());
    size_t row = 0;
    for (size_t head = 0; head < positions.size(); ++head) {
      for (const uint32_t position : positions[head]) {
        const size_t from = (head * compressed->plan.seq_len + position) * dim;
        EXPECT_TRUE(std::equal(&all->k[from], &all->k[from] + dim, &kept->k[row]));
        EXPECT_TRUE(std::equal(&all->v[from], &all->v[from] + dim, &kept->v[row]));
        row += dim;
      }
    }
  }
}

TEST_P(RetainedShapeTest, IsTheSameForAnyNumberOfThreads) {
  const MadeUpLayer layer(GetParam());
  for (const Layout layout : {Layout::kSnapKv, Layout::kRecent}) {
    const auto one = layer.Compress(Options(layout, 200'000), 1);
    const auto three = layer.Compress(Options(layout, 200'000), 3);
    ASSERT_TRUE(one.ok() && three.ok());
    EXPECT_EQ(std::memcmp(one->region.data(), three->region.data(), one->region.size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RetainedShapeTest,
                         testing::Values(LayerShape{129, 1, 1, 64}, LayerShape{700, 2, 4, 64},
                                         LayerShape{1000, 3, 9, 64}, LayerShape{400, 2, 2, 128},
                                         LayerShape{500, 1, 4, 80}),
                         [](const auto& info) { return info.param.ToString(); });

TEST(RetainedTest, SnapKvTakesTheLowerPositionOnTies) {
  // Equal keys everywhere: every score but those at the ends of the pooling is the same.
  const LayerShape shape = {400, 1, 1, 64};
  const MadeUpLayer layer(shape, [](Side side, int, int64_t, float* row) {
    for (int d = 0; d < 64; ++d) row[d] = side == Side::kKey ? 0.0f : 1.0f;
  });
  const auto compressed = layer.Compress(Options(Layout::kSnapKv, 50'000));
  ASSERT_TRUE(compressed.ok());
  const std::vector<uint32_t> positions = StoredPositions(*compressed)[0];
  const int64_t scored = compressed->plan.num_scored;
  for (int64_t i = 0; i < scored; ++i) EXPECT_EQ(positions[i], i + 3);
  EXPECT_EQ(positions[scored], 368u);
}

TEST(RetainedTest, ShortPromptsPassThrough) {
  const MadeUpLayer layer({100, 2, 4, 64});
  const auto dense = layer.Compress(Options(Layout::kDense, 1'000'000));
  for (const Layout layout : {Layout::kSnapKv, Layout::kRecent}) {
    const auto compressed = layer.Compress(Options(layout, 50'000));
    ASSERT_TRUE(compressed.ok());
    EXPECT_EQ(compressed->plan.layout, Layout::kDense);
    EXPECT_EQ(compressed->checksum, dense->checksum);
  }
}

TEST(RetainedTest, NamesWhereSomethingIsNotFinite) {
  MadeUpLayer layer({300, 2, 2, 64});
  layer.Row(Side::kValue, 1, 150)[3] = kernels::ToBf16(std::numeric_limits<float>::infinity());
  for (const Layout layout : {Layout::kSnapKv, Layout::kRecent}) {
    const auto status = layer.Compress(Options(layout, 50'000)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("layer 3, position 150"));
  }
}

TEST(RetainedTest, RefusesThePlanOfAnotherLayout) {
  const MadeUpLayer layer({300, 1, 1, 64});
  kernels::Stream stream(1);
  Workspace workspace;
  for (const Layout layout : {Layout::kSnapKv, Layout::kRecent}) {
    const auto result =
        MakeCompressor(Options(layout, 50'000))
            ->Compress(layer.layer(), layer.observed(),
                       PlanLayer({1, 1, 64}, Options(Layout::kCompact, 50'000), 300, 0),
                       kernels::CodePacking::kPlanar, workspace, stream);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace anchorage::kv
