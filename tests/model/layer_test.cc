// One layer's forward pass: chunks, windows and the two ways through the weights.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/elementwise.h"
#include "model/decode_layer.h"
#include "model/head.h"
#include "model/prefill_layer.h"
#include "tests/support/tiny_model.h"

namespace anchorage::model {
namespace {

constexpr int64_t kTokens = 150;
constexpr int64_t kWindow = 32;

class LayerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = Model::Load(testing::TinyModelPath());
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    std::mt19937 rng(3);
    for (int64_t i = 0; i < kTokens; ++i) {
      ids_.push_back(static_cast<int32_t>(rng() % static_cast<uint32_t>(config().vocab_size)));
    }
  }

  const ModelConfig& config() const { return model_->config(); }

  std::vector<float> Embedded() const {
    std::vector<float> hidden(static_cast<size_t>(kTokens * config().hidden_dim));
    EXPECT_TRUE(EmbedTokens(*model_, ids_.data(), kTokens, hidden.data()).ok());
    return hidden;
  }

  struct Pass {
    std::vector<float> hidden;
    ActiveKv kv;
    ObservedRows observed;
  };

  // Layer 0 over all tokens, `chunk` at a time.
  Pass Run(int64_t chunk, bool packed_products, int threads) {
    kernels::Stream stream(threads);
    Pass pass{Embedded(), *ActiveKv::Create(config(), kTokens),
              *ObservedRows::Create(config(), kTokens, kWindow)};
    EXPECT_TRUE(pass.kv.Begin(kTokens).ok());
    PackedLayer packed = *PackedLayer::Create(config());
    EXPECT_TRUE(packed.Unpack(*model_, 0, stream).ok());
    PrefillScratch scratch = *PrefillScratch::Create(config(), chunk, kTokens, threads);
    const LayerMatrices matrices{&model_->layer(0), packed_products ? &packed : nullptr};
    for (int64_t start = 0; start < kTokens; start += chunk) {
      const int64_t rows = std::min(chunk, kTokens - start);
      const absl::Status ran = PrefillChunk(*model_, matrices, start, rows,
                                            pass.hidden.data() + start * config().hidden_dim,
                                            pass.kv, pass.observed, scratch, stream);
      EXPECT_TRUE(ran.ok()) << ran;
    }
    return pass;
  }

  std::unique_ptr<const Model> model_;
  std::vector<int32_t> ids_;
};

template <typename T>
void ExpectSameBits(const T* a, const T* b, int64_t count, const char* what) {
  EXPECT_EQ(std::memcmp(a, b, static_cast<size_t>(count) * sizeof(T)), 0) << what;
}

TEST_F(LayerTest, ChunksAndThreadsChangeNoBit) {
  const Pass whole = Run(kTokens, true, 1);
  const int64_t q_dim = config().q_dim();
  for (const int threads : {1, 2}) {
    for (const int64_t chunk : {1, 7, 64, 149}) {
      const Pass pass = Run(chunk, true, threads);
      SCOPED_TRACE(chunk);
      ExpectSameBits(pass.hidden.data(), whole.hidden.data(), kTokens * config().hidden_dim,
                     "hidden");
      const int64_t kv_count = kTokens * config().kv_dim();
      ExpectSameBits(pass.kv.view().k, whole.kv.view().k, kv_count, "k");
      ExpectSameBits(pass.kv.view().v, whole.kv.view().v, kv_count, "v");
      // The window straddles chunks of 7 and of 149.
      const kernels::ObservedRowsView seen = pass.observed.view();
      const kernels::ObservedRowsView expected = whole.observed.view();
      ASSERT_EQ(seen.num_rows, kWindow);
      ExpectSameBits(seen.q, expected.q, kWindow * q_dim, "q");
      ExpectSameBits(seen.out, expected.out, kWindow * q_dim, "out");
      ExpectSameBits(seen.lse, expected.lse, kWindow * config().num_q_heads, "lse");
    }
  }
}

// The window's rows hold what they claim: the log-sum-exp and output of their own softmax.
TEST_F(LayerTest, ObservedRowsSatisfyTheirSoftmax) {
  const Pass pass = Run(64, true, 1);
  const kernels::ObservedRowsView seen = pass.observed.view();
  const kernels::ActiveKvView kv = pass.kv.view();
  const int64_t dim = config().head_dim;
  const int64_t group = config().num_q_heads / config().num_kv_heads;
  kernels::Stream stream(1);
  std::vector<float> key(static_cast<size_t>(dim));
  for (const int64_t row : {int64_t{0}, kWindow - 1}) {
    for (int64_t head = 0; head < config().num_q_heads; ++head) {
      const int64_t last = kTokens - kWindow + row;
      const float* q = seen.q + (row * config().num_q_heads + head) * dim;
      double sum = 0;
      std::vector<double> y(static_cast<size_t>(dim));
      for (int64_t t = 0; t <= last; ++t) {
        const int64_t at = (head / group * kv.capacity + t) * dim;
        kernels::ToFloatRow(dim, kv.k + at, key.data());
        ASSERT_EQ(kernels::ApplyRope(1, 1, dim, model_->rope(), t, nullptr, key.data(), stream),
                  kernels::Status::kOk);
        double score = 0;
        for (int64_t i = 0; i < dim; ++i) score += double{q[i]} * key[static_cast<size_t>(i)];
        const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
        sum += weight;
        for (int64_t i = 0; i < dim; ++i) {
          y[static_cast<size_t>(i)] += weight * kernels::ToFloat(kv.v[at + i]);
        }
      }
      const int64_t index = row * config().num_q_heads + head;
      EXPECT_NEAR(seen.lse[index], std::log(sum), 1e-4);
      for (int64_t i = 0; i < dim; ++i) {
        EXPECT_NEAR(seen.out[index * dim + i], y[static_cast<size_t>(i)] / sum, 1e-4);
      }
    }
  }
}

// Unpacked panels and stored bytes hold the same numbers: only the order of sums differs.
TEST_F(LayerTest, BothWaysThroughTheWeightsAgree) {
  const Pass packed = Run(64, true, 1);
  const Pass stored = Run(64, false, 1);
  double largest = 0;
  for (const float value : packed.hidden) largest = std::max(largest, std::abs(double{value}));
  for (size_t i = 0; i < packed.hidden.size(); ++i) {
    // bf16 K and V may round to neighbours (2^-8), which a softmax passes on in part.
    ASSERT_NEAR(packed.hidden[i], stored.hidden[i], largest * 0x1p-8) << i;
  }
}

TEST_F(LayerTest, WindowIsNeverLongerThanThePrompt) {
  const ObservedRows rows = *ObservedRows::Create(config(), 5, kWindow);
  EXPECT_EQ(rows.view().num_rows, 5);
  const ObservedRows none = *ObservedRows::Create(config(), 5, 0);
  EXPECT_EQ(none.view().num_rows, 0);
}

// A decode step's row does not depend on the rows beside it.
TEST_F(LayerTest, DecodeRowsAreAloneInABatch) {
  kernels::Stream stream(2);
  const int64_t hidden_dim = config().hidden_dim;
  const auto attend = [this](int64_t, int64_t rows, const float* q, const float* k, const float* v,
                             float* out) {
    const int64_t group = config().num_q_heads / config().num_kv_heads;
    const int64_t dim = config().head_dim;
    // Attention over the new entry alone is its value; q and k must be rotated and finite.
    for (int64_t i = 0; i < rows * config().q_dim(); ++i) {
      const int64_t row = i / config().q_dim();
      const int64_t head = i % config().q_dim() / dim;
      out[i] = v[row * config().kv_dim() + head / group * dim + i % dim];
      EXPECT_TRUE(std::isfinite(q[i]));
    }
    for (int64_t i = 0; i < rows * config().kv_dim(); ++i) EXPECT_TRUE(std::isfinite(k[i]));
    return absl::OkStatus();
  };
  LayerScratch scratch = *LayerScratch::Create(config(), 64);
  std::vector<int32_t> positions(64);
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i * 37);
  std::vector<float> batch = Embedded();
  ASSERT_TRUE(
      DecodeLayer(*model_, 1, 64, positions.data(), batch.data(), attend, scratch, stream).ok());
  const std::vector<float> embedded = Embedded();
  for (const int64_t row : {0, 1, 63}) {
    std::vector<float> alone(embedded.begin() + row * hidden_dim,
                             embedded.begin() + (row + 1) * hidden_dim);
    ASSERT_TRUE(
        DecodeLayer(*model_, 1, 1, positions.data() + row, alone.data(), attend, scratch, stream)
            .ok());
    ExpectSameBits(alone.data(), batch.data() + row * hidden_dim, hidden_dim, "row");
  }
}

TEST_F(LayerTest, DecodeRefusesBadPositionsAndTooManyRows) {
  kernels::Stream stream(1);
  LayerScratch scratch = *LayerScratch::Create(config(), 2);
  std::vector<float> hidden(static_cast<size_t>(4 * config().hidden_dim));
  const auto attend = [](int64_t, int64_t, const float*, const float*, const float*, float*) {
    return absl::OkStatus();
  };
  for (const int32_t position : {-1, static_cast<int32_t>(config().context_length)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        DecodeLayer(*model_, 0, 1, &position, hidden.data(), attend, scratch, stream)));
  }
  const int32_t positions[4] = {};
  EXPECT_TRUE(absl::IsInvalidArgument(
      DecodeLayer(*model_, 0, 3, positions, hidden.data(), attend, scratch, stream)));
  const auto failing = [](int64_t, int64_t, const float*, const float*, const float*, float*) {
    return absl::ResourceExhaustedError("no block");
  };
  EXPECT_TRUE(absl::IsResourceExhausted(
      DecodeLayer(*model_, 0, 2, positions, hidden.data(), failing, scratch, stream)));
}

TEST_F(LayerTest, EmbeddingRefusesTokensOutsideTheVocabulary) {
  std::vector<float> hidden(static_cast<size_t>(config().hidden_dim));
  for (const int32_t id : {-1, static_cast<int32_t>(config().vocab_size)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(EmbedTokens(*model_, &id, 1, hidden.data())));
  }
}

TEST_F(LayerTest, LogitsOfARowDoNotDependOnTheOthers) {
  kernels::Stream stream(2);
  const std::vector<float> hidden = Embedded();
  const int64_t vocab = config().vocab_size;
  std::vector<float> normed(hidden.size());
  std::vector<float> all(static_cast<size_t>(kTokens * vocab));
  std::vector<float> one(static_cast<size_t>(vocab));
  ASSERT_TRUE(
      ComputeLogits(*model_, kTokens, hidden.data(), normed.data(), all.data(), stream).ok());
  const int64_t row = kTokens - 1;
  ASSERT_TRUE(ComputeLogits(*model_, 1, hidden.data() + row * config().hidden_dim, normed.data(),
                            one.data(), stream)
                  .ok());
  ExpectSameBits(one.data(), all.data() + row * vocab, vocab, "logits");
}

}  // namespace
}  // namespace anchorage::model
