#include "eval/candidate_cache.h"

#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "decode_node/core/batch_step.h"
#include "eval/next_token.h"
#include "eval/prefill_once.h"
#include "gtest/gtest.h"
#include "tests/support/tiny_model.h"

namespace anchorage::eval {
namespace {

constexpr int64_t kSeqLen = 600;

class CandidateCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = model::Model::Load(testing::TinyModelPath());
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    std::mt19937 random(4);
    for (int64_t i = 0; i < kSeqLen + 2; ++i) ids_.push_back(static_cast<int32_t>(random() % 512));
  }

  void Add(kv::Layout layout, double ratio,
           const std::optional<Ablation>& ablation = std::nullopt) {
    kv::PlanOptions options;
    options.layout = layout;
    options.theta_ppm = kv::ThetaPpmFromRatio(ratio);
    auto cache = CandidateCache::Create(*model_, options, kSeqLen, 2, arena_, ablation);
    ASSERT_TRUE(cache.ok()) << cache.status();
    caches_.push_back(*std::move(cache));
  }

  // Log-probabilities of the token after the first one behind the prompt, by each cache.
  std::vector<std::vector<double>> Predict() {
    EXPECT_TRUE(PrefillOnce(*model_, ids_, kSeqLen, caches_, stream_).ok());
    std::vector<decode::Sequence*> batch;
    for (CandidateCache& cache : caches_) {
      batch.push_back(&cache.Join(ids_[kSeqLen]));
      EXPECT_EQ(batch.back()->position(), kSeqLen);
    }
    auto step = decode::BatchStep::Create(*model_, {}, stream_);
    const auto logits = (*step)->Logits(batch);
    EXPECT_TRUE(logits.ok()) << logits.status();
    const auto vocab = static_cast<size_t>(model_->config().vocab_size);
    std::vector<std::vector<double>> predictions;
    for (size_t i = 0; i < batch.size(); ++i) {
      predictions.push_back(LogProbabilities(logits->subspan(i * vocab, vocab)));
    }
    return predictions;
  }

  std::unique_ptr<const model::Model> model_;
  std::vector<int32_t> ids_;
  kernels::Stream stream_{2};
  decode::Arena arena_{int64_t{1} << 32};
  std::vector<CandidateCache> caches_;
};

TEST_F(CandidateCacheTest, TheReferenceOfTheServedCachePredictsWhatItDoes) {
  Add(kv::Layout::kDense, 1);
  Add(kv::Layout::kCompact, 10);
  Add(kv::Layout::kCompact, 10, Ablation());
  EXPECT_EQ(caches_[1].bytes(), caches_[2].bytes());
  const auto predictions = Predict();
  const double served = Divergence(predictions[0], predictions[1]);
  // The reference's rows are rounded to bf16, which is little beside what the cache has lost.
  EXPECT_LT(Divergence(predictions[1], predictions[2]), served / 100);
}

TEST_F(CandidateCacheTest, CachesOfOneBudgetAndSeveralWindowsFillInOnePrefill) {
  Add(kv::Layout::kDense, 1);
  Add(kv::Layout::kCompact, 10);
  Add(kv::Layout::kCompact, 10, ParseAblation("window-8").value());
  Add(kv::Layout::kCompact, 10, ParseAblation("window-64").value());
  Add(kv::Layout::kCompact, 10, ParseAblation("no-residuals+after-rope").value());
  Add(kv::Layout::kSnapKv, 10);
  Add(kv::Layout::kRecent, 10);
  const auto predictions = Predict();
  for (size_t i = 1; i < caches_.size(); ++i) {
    EXPECT_NEAR(caches_[i].ratio(), caches_[1].ratio(), 0.05 * caches_[1].ratio()) << i;
    EXPECT_GT(Divergence(predictions[0], predictions[i]), 0) << i;
  }
  // A window of other caches changes nothing.
  caches_.clear();
  Add(kv::Layout::kDense, 1);
  Add(kv::Layout::kCompact, 10);
  EXPECT_EQ(Predict()[1], predictions[1]);
}

TEST_F(CandidateCacheTest, ResidualsOfAnAblationAreCountedAsThoseOfAServedCache) {
  Add(kv::Layout::kCompact, 10);
  Add(kv::Layout::kCompact, 10, Ablation());
  Add(kv::Layout::kCompact, 10, ParseAblation("no-residuals").value());
  Predict();
  for (int layer = 0; layer < model_->config().num_layers; ++layer) {
    for (const kv::Side side : kv::kSides) {
      const auto served = caches_[0].residual_shares(layer, side);
      const auto reference = caches_[1].residual_shares(layer, side);
      const auto none = caches_[2].residual_shares(layer, side);
      ASSERT_EQ(served.size(), reference.size());
      for (size_t head = 0; head < served.size(); ++head) {
        EXPECT_GT(reference[head], 0) << "layer " << layer << ", head " << head;
        EXPECT_NEAR(reference[head], served[head], 2.0 / kSeqLen);
        EXPECT_EQ(none[head], 0);
      }
    }
  }
}

TEST_F(CandidateCacheTest, OnlyAnchorKvHasAblations) {
  kv::PlanOptions options;
  options.layout = kv::Layout::kSnapKv;
  EXPECT_EQ(
      CandidateCache::Create(*model_, options, kSeqLen, 2, arena_, Ablation()).status().code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace anchorage::eval
