// The decode kernel attends over a region as it lies; rebuilding the region densely and attending
// over that must give the same.

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/decode_attention.h"
#include "kv/layer_cache.h"
#include "kv/layouts/reconstruct.h"
#include "tests/kv/layer_fixture.h"

namespace anchorage::kv {
namespace {

struct DecodeCase {
  LayerShape shape;
  int64_t theta_ppm;
  Layout layout = Layout::kCompact;
};

class DecodeTest : public testing::TestWithParam<DecodeCase> {};

// Softmax attention in double over rebuilt rows [H, num_rows, D].
std::vector<double> Attend(const LayerShape& shape, int64_t num_rows,
                           const ReconstructedLayer& rows, const std::vector<float>& q) {
  std::vector<double> out(q.size());
  const int dim = shape.head_dim;
  const int group = shape.num_q_heads / shape.num_kv_heads;
  for (int q_head = 0; q_head < shape.num_q_heads; ++q_head) {
    const int64_t first = q_head / group * num_rows * dim;
    std::vector<double> weights(static_cast<size_t>(num_rows));
    for (int64_t t = 0; t < num_rows; ++t) {
      for (int d = 0; d < dim; ++d) {
        weights[t] += double{q[q_head * dim + d]} * rows.k[first + t * dim + d] / std::sqrt(dim);
      }
    }
    const double top = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - top);
    for (int64_t t = 0; t < num_rows; ++t) {
      for (int d = 0; d < dim; ++d) {
        out[q_head * dim + d] += weights[t] / sum * rows.v[first + t * dim + d];
      }
    }
  }
  return out;
}

TEST_P(DecodeTest, KernelOverTheRegionEqualsAttentionOverItsReconstruction) {
  const LayerShape& shape = GetParam().shape;
  const MadeUpLayer layer(shape);
  PlanOptions options;
  options.layout = GetParam().layout;
  options.theta_ppm = GetParam().theta_ppm;
  const auto compressed = layer.Compress(options);
  ASSERT_TRUE(compressed.ok()) << compressed.status();
  const auto rebuilt = ReconstructLayer(compressed->plan, compressed->region.span(), layer.rope(),
                                        kernels::CodePacking::kPlanar);
  ASSERT_TRUE(rebuilt.ok());
  const auto cache = MapLayer(compressed->plan, compressed->region.span());
  ASSERT_TRUE(cache.ok());

  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> q(static_cast<size_t>(shape.num_q_heads * shape.head_dim));
  for (float& value : q) value = normal(random);
  std::vector<float> out(q.size());
  const kernels::DecodeAttentionShape kernel_shape = {shape.num_q_heads, shape.num_kv_heads,
                                                      shape.head_dim};
  kernels::Stream stream(2);
  AlignedBuffer scratch(static_cast<size_t>(kernels::DecodeAttentionScratchBytes(
      kernel_shape, static_cast<int>(compressed->plan.num_anchors), stream.num_threads())));
  ASSERT_EQ(kernels::DecodeAttention(kernel_shape, 1, &*cache, q.data(), layer.rope(), out.data(),
                                     scratch.data(), stream),
            kernels::Status::kOk);

  const std::vector<double> expected = Attend(shape, compressed->plan.num_rows(), *rebuilt, q);
  double error = 0;
  double energy = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    error += std::pow(out[i] - expected[i], 2);
    energy += std::pow(expected[i], 2);
  }
  // Single-precision sums over a few thousand terms whose scores are off by some 1e-6.
  EXPECT_LT(std::sqrt(error / energy), 2e-5);
}

// The plan counts what the kernels read.
TEST(CompactTensorsTest, PlanAndKernelsAgreeOnTheBytesOfAPosition) {
  for (const int64_t seq_len : {130, 515, 8192, 8320, 33'000, 70'001}) {
    const LayerPlan plan = PlanLayer({1, 3, 64}, PlanOptions(), seq_len, 0);
    EXPECT_EQ(plan.Find("idx_k")->bytes,
              3 * kernels::IndexRowBytes(plan.prefix_len(), plan.num_anchors));
    EXPECT_EQ(plan.Find("proj_v")->bytes, 3 * kernels::ProjectionRowBytes(plan.prefix_len()));
    EXPECT_EQ(plan.Find("proj_level_k")->bytes, 3 * 4 * kernels::kNumProjectionLevels);
    EXPECT_LE(plan.num_anchors, kernels::kMaxCompactAnchors);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, DecodeTest,
    testing::Values(DecodeCase{{100, 2, 4, 64}, 50'000}, DecodeCase{{129, 2, 4, 64}, 50'000},
                    DecodeCase{{500, 2, 4, 64}, 50'000}, DecodeCase{{1000, 3, 9, 64}, 50'000},
                    DecodeCase{{4097, 1, 3, 64}, 50'000}, DecodeCase{{4097, 1, 3, 64}, 200'000},
                    DecodeCase{{1000, 1, 4, 80}, 100'000}, DecodeCase{{700, 2, 2, 96}, 100'000},
                    DecodeCase{{700, 2, 8, 128}, 100'000}, DecodeCase{{400, 2, 2, 256}, 100'000},
                    DecodeCase{{33'000, 1, 2, 32}, 200'000}),
    [](const auto& info) {
      return info.param.shape.ToString() + "_theta" + std::to_string(info.param.theta_ppm);
    });

INSTANTIATE_TEST_SUITE_P(Evicting, DecodeTest,
                         testing::Values(DecodeCase{{700, 2, 4, 64}, 200'000, Layout::kSnapKv},
                                         DecodeCase{{4097, 1, 3, 128}, 100'000, Layout::kSnapKv},
                                         DecodeCase{{700, 2, 4, 64}, 200'000, Layout::kRecent},
                                         DecodeCase{{33'000, 1, 2, 32}, 200'000, Layout::kRecent}),
                         [](const auto& info) {
                           return info.param.shape.ToString() + "_" + LayoutName(info.param.layout);
                         });

}  // namespace
}  // namespace anchorage::kv
