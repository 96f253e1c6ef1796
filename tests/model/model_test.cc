#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/stream.h"
#include "tests/model/llama_file.h"
#include "tests/support/tiny_model.h"

namespace anchorage::model {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<const Model>> Load(LlamaFile& file) {
  absl::StatusOr<files::GgufFile> gguf = file.Parse();
  if (!gguf.ok()) return gguf.status();
  return Model::FromFile(*std::move(gguf));
}

std::string Error(LlamaFile& file) {
  const auto model = Load(file);
  EXPECT_FALSE(model.ok());
  return std::string(model.status().message());
}

std::unique_ptr<const Model> LoadTiny(const testing::TinyModelOptions& options) {
  auto model = Model::Load(testing::TinyModelPath(options));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST(ModelTest, LoadsEveryTypeOfWeights) {
  for (const char* types : {"q4_1", "q8_0", "f16", "f32"}) {
    const auto model = LoadTiny({.types = types});
    EXPECT_EQ(model->config().num_layers, 4);
    EXPECT_EQ(model->config().vocab_size, 512);
    EXPECT_EQ(model->layer(3)[Matrix::kDown].cols, 352);
    EXPECT_EQ(model->geometry().num_kv_heads, 2);
    EXPECT_GT(model->weight_bytes(), 0);
  }
}

TEST(ModelTest, DispatchesTheTypePerTensor) {
  const auto model = LoadTiny({.types = "q4_1"});
  EXPECT_EQ(model->embedding().type, kernels::WeightType::kQ8_0);
  EXPECT_EQ(model->layer(0)[Matrix::kQ].type, kernels::WeightType::kQ4_1);
}

TEST(ModelTest, TiesTheOutputToTheEmbeddingUnlessTheFileHasOne) {
  LlamaFile tied;
  const auto with_tied = Load(tied);
  ASSERT_TRUE(with_tied.ok()) << with_tied.status();
  EXPECT_EQ((*with_tied)->output().data, (*with_tied)->embedding().data);

  LlamaFile untied;
  untied.tensors["output.weight"] = {32, 40};
  const auto with_output = Load(untied);
  ASSERT_TRUE(with_output.ok()) << with_output.status();
  EXPECT_NE((*with_output)->output().data, (*with_output)->embedding().data);
}

TEST(ModelTest, NamesAMissingTensor) {
  for (const auto& [name, dims] : LlamaFile().tensors) {
    LlamaFile file;
    file.tensors.erase(name);
    EXPECT_THAT(Error(file), HasSubstr(name));
  }
  LlamaFile file;
  file.integers["llama.block_count"] = 2;
  EXPECT_THAT(Error(file), HasSubstr("blk.1."));
}

TEST(ModelTest, NamesATensorOfAWrongShape) {
  for (const auto& [name, dims] : LlamaFile().tensors) {
    LlamaFile file;
    file.integers.erase("llama.vocab_size");
    file.tensors[name].front() += 32;
    EXPECT_THAT(Error(file), HasSubstr(name));
  }
}

TEST(ModelTest, NamesATensorOfAnUnknownType) {
  LlamaFile file;
  file.type_of["blk.0.ffn_up.weight"] = files::TensorType::kI32;
  EXPECT_THAT(Error(file), HasSubstr("blk.0.ffn_up.weight is of type I32"));
  LlamaFile norms;
  norms.type_of["output_norm.weight"] = files::TensorType::kI32;
  EXPECT_THAT(Error(norms), HasSubstr("output_norm.weight"));
}

TEST(ModelTest, RefusesATensorThatItWouldIgnore) {
  LlamaFile file;
  file.tensors["blk.0.attn_q.bias"] = {32};
  EXPECT_THAT(Error(file), HasSubstr("blk.0.attn_q.bias"));
}

TEST(ModelTest, SaysWhichFileIsMissing) {
  const auto model = Model::Load("/nowhere/model.gguf");
  EXPECT_TRUE(absl::IsNotFound(model.status())) << model.status();
}

TEST(ModelTest, FingerprintSeesWeightsConfigurationAndRope) {
  const auto fingerprint = [](const std::function<void(LlamaFile&)>& change) {
    LlamaFile file;
    change(file);
    const auto model = Load(file);
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->fingerprint();
  };
  const uint64_t plain = fingerprint([](LlamaFile&) {});
  EXPECT_EQ(plain, fingerprint([](LlamaFile& f) { f.texts["general.name"] = "renamed"; }));
  EXPECT_NE(plain, fingerprint([](LlamaFile& f) { f.weight_of["blk.0.ffn_up.weight"] = 0.25; }));
  EXPECT_NE(plain, fingerprint([](LlamaFile& f) { f.reals["llama.rope.freq_base"] = 1e5f; }));
  EXPECT_NE(plain, fingerprint([](LlamaFile& f) { f.integers["llama.context_length"] = 64; }));
  EXPECT_NE(plain, fingerprint([](LlamaFile& f) { f.tensors["rope_freqs.weight"] = {4}; }));
}

TEST(ModelTest, RopeTableIsRoundedFromDouble) {
  LlamaFile file;
  file.tensors["rope_freqs.weight"] = {4};
  file.weight_of["rope_freqs.weight"] = 2;
  const auto model = Load(file);
  ASSERT_TRUE(model.ok()) << model.status();
  const kernels::RopeView& rope = (*model)->rope();
  ASSERT_EQ(rope.num_positions, 128);
  for (const int position : {0, 1, 127}) {
    for (int pair = 0; pair < 4; ++pair) {
      const double angle = position * std::pow(1e4, -2.0 * pair / 8) / 2;
      EXPECT_EQ(rope.cos[position * 4 + pair], static_cast<float>(std::cos(angle)));
      EXPECT_EQ(rope.sin[position * 4 + pair], static_cast<float>(std::sin(angle)));
    }
  }
}

// The file's rows make neighbouring rotary pairs, ours half-split ones. Rotated each in its own
// way, queries and keys must agree in every product.
class RotaryOrderTest : public ::testing::TestWithParam<int> {};

TEST_P(RotaryOrderTest, RotatedProductsAreThoseOfTheFilesOrder) {
  const int head_dim = GetParam();
  const int half = head_dim / 2;
  const auto model = LoadTiny({.head_dim = head_dim, .types = "f32"});
  const ModelConfig& config = model->config();
  const auto stored = [&](const char* name) {
    return reinterpret_cast<const float*>(model->file().FindTensor(name)->data.data());
  };
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(config.hidden_dim));
  for (float& value : x) value = normal(rng);

  // Head 1 of Q against head 0 of K (their group), in the file's order, in double.
  const auto head_in_file = [&](const float* weights, int64_t head) {
    std::vector<double> out(static_cast<size_t>(head_dim));
    for (int row = 0; row < head_dim; ++row) {
      const float* w = weights + (head * head_dim + row) * config.hidden_dim;
      for (int64_t i = 0; i < config.hidden_dim; ++i) {
        out[static_cast<size_t>(row)] += double{w[i]} * x[static_cast<size_t>(i)];
      }
    }
    return out;
  };
  const auto rotate_neighbours = [&](std::vector<double> v, int position) {
    for (int pair = 0; pair < half; ++pair) {
      const double angle = position * std::pow(config.rope_theta, -2.0 * pair / head_dim);
      double& even = v[static_cast<size_t>(2 * pair)];
      double& odd = v[static_cast<size_t>(2 * pair + 1)];
      const double rotated = even * std::cos(angle) - odd * std::sin(angle);
      odd = even * std::sin(angle) + odd * std::cos(angle);
      even = rotated;
    }
    return v;
  };

  kernels::Stream stream(1);
  std::vector<float> q(static_cast<size_t>(config.q_dim()));
  std::vector<float> k(static_cast<size_t>(config.kv_dim()));
  const LayerWeights& layer = model->layer(0);
  for (const auto& [q_position, k_position] :
       std::vector<std::pair<int32_t, int32_t>>{{0, 0}, {5, 5}, {17, 3}, {4000, 1}, {8191, 8190}}) {
    ASSERT_EQ(kernels::Matmul(1, x.data(), layer[Matrix::kQ], q.data(), false, stream),
              kernels::Status::kOk);
    ASSERT_EQ(kernels::Matmul(1, x.data(), layer[Matrix::kK], k.data(), false, stream),
              kernels::Status::kOk);
    ASSERT_EQ(kernels::ApplyRope(1, static_cast<int>(config.num_q_heads), config.q_dim(),
                                 model->rope(), q_position, nullptr, q.data(), stream),
              kernels::Status::kOk);
    ASSERT_EQ(kernels::ApplyRope(1, static_cast<int>(config.num_kv_heads), config.kv_dim(),
                                 model->rope(), k_position, nullptr, k.data(), stream),
              kernels::Status::kOk);
    double ours = 0;
    for (int i = 0; i < head_dim; ++i) {
      ours += double{q[static_cast<size_t>(head_dim + i)]} * k[static_cast<size_t>(i)];
    }
    const std::vector<double> q_file =
        rotate_neighbours(head_in_file(stored("blk.0.attn_q.weight"), 1), q_position);
    const std::vector<double> k_file =
        rotate_neighbours(head_in_file(stored("blk.0.attn_k.weight"), 0), k_position);
    double files = 0;
    double magnitude = 0;
    for (size_t i = 0; i < q_file.size(); ++i) {
      files += q_file[i] * k_file[i];
      magnitude += std::abs(q_file[i] * k_file[i]);
    }
    // Sums of 128 products, then a rotation, then 64 or 128 products, each rounded to f32.
    EXPECT_NEAR(ours, files, 64 * 6e-8 * magnitude) << q_position << " against " << k_position;
  }
}

INSTANTIATE_TEST_SUITE_P(HeadDims, RotaryOrderTest, ::testing::Values(64, 128));

}  // namespace
}  // namespace anchorage::model
