#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/model/llama_file.h"

namespace anchorage::model {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ModelConfig> Read(LlamaFile& file) {
  const absl::StatusOr<files::GgufFile> gguf = file.Parse();
  if (!gguf.ok()) return gguf.status();
  return ReadConfig(*gguf);
}

// What the reader says when one key has another value.
std::string ErrorWith(const std::string& key, uint32_t value) {
  LlamaFile file;
  file.integers[key] = value;
  const absl::StatusOr<ModelConfig> config = Read(file);
  EXPECT_FALSE(config.ok()) << key << " = " << value;
  return std::string(config.status().message());
}

TEST(ReadConfigTest, ReadsEveryNumber) {
  LlamaFile file;
  const absl::StatusOr<ModelConfig> config = Read(file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->name, "minimal");
  EXPECT_EQ(config->num_layers, 1);
  EXPECT_EQ(config->hidden_dim, 32);
  EXPECT_EQ(config->num_q_heads, 4);
  EXPECT_EQ(config->num_kv_heads, 2);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->ff_dim, 64);
  EXPECT_EQ(config->vocab_size, 40);
  EXPECT_EQ(config->context_length, 128);
  EXPECT_EQ(config->rms_eps, 1e-5f);
  EXPECT_EQ(config->rope_theta, 1e4);
  EXPECT_TRUE(config->rope_divisors.empty());
}

TEST(ReadConfigTest, DefaultsWhatFilesMayLeaveOut) {
  LlamaFile file;
  for (const char* key :
       {"llama.attention.head_count_kv", "llama.attention.key_length",
        "llama.attention.value_length", "llama.rope.dimension_count", "llama.vocab_size"}) {
    file.integers.erase(key);
  }
  file.reals.erase("llama.rope.freq_base");
  file.texts.erase("general.name");
  const absl::StatusOr<ModelConfig> config = Read(file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->num_kv_heads, 4);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->rope_theta, 10000);
}

TEST(ReadConfigTest, TakesAHeadThatIsNotHiddenByHeads) {
  LlamaFile file;
  for (const char* key : {"llama.attention.key_length", "llama.attention.value_length",
                          "llama.rope.dimension_count"}) {
    file.integers[key] = 16;
  }
  const absl::StatusOr<ModelConfig> config = Read(file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->q_dim(), 64);
  EXPECT_EQ(config->kv_dim(), 32);
}

TEST(ReadConfigTest, NamesEachMissingKey) {
  for (const char* key : {"llama.block_count", "llama.context_length", "llama.embedding_length",
                          "llama.feed_forward_length", "llama.attention.head_count"}) {
    LlamaFile file;
    file.integers.erase(key);
    const absl::StatusOr<ModelConfig> config = Read(file);
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(key));
  }
  LlamaFile file;
  file.reals.clear();
  EXPECT_THAT(std::string(Read(file).status().message()),
              HasSubstr("llama.attention.layer_norm_rms_epsilon"));
}

TEST(ReadConfigTest, RefusesNumbersOutOfBounds) {
  EXPECT_THAT(ErrorWith("llama.block_count", 0), HasSubstr("llama.block_count is 0"));
  EXPECT_THAT(ErrorWith("llama.block_count", 4'000'000'000u), HasSubstr("llama.block_count"));
  EXPECT_THAT(ErrorWith("llama.context_length", 0), HasSubstr("llama.context_length"));
  EXPECT_THAT(ErrorWith("llama.context_length", 0xFFFFFFFFu), HasSubstr("llama.context_length"));
  EXPECT_THAT(ErrorWith("llama.attention.head_count", 0), HasSubstr("head_count is 0"));
  EXPECT_THAT(ErrorWith("llama.attention.head_count_kv", 0), HasSubstr("head_count_kv is 0"));
  EXPECT_THAT(ErrorWith("llama.attention.head_count_kv", 3), HasSubstr("not a multiple"));
  EXPECT_THAT(ErrorWith("llama.attention.head_count_kv", 8), HasSubstr("head_count_kv"));
  EXPECT_THAT(ErrorWith("llama.attention.key_length", 12), HasSubstr("multiple of 8"));
  EXPECT_THAT(ErrorWith("llama.attention.key_length", 1024), HasSubstr("key_length"));
  EXPECT_THAT(ErrorWith("llama.attention.value_length", 16), HasSubstr("value_length"));
  EXPECT_THAT(ErrorWith("llama.rope.dimension_count", 4), HasSubstr("rope.dimension_count"));
  EXPECT_THAT(ErrorWith("llama.vocab_size", 41), HasSubstr("vocab_size"));
}

TEST(ReadConfigTest, RefusesNumbersThatAreNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {nan, -1e-5f, 2.0f, std::numeric_limits<float>::infinity()}) {
    LlamaFile file;
    file.reals["llama.attention.layer_norm_rms_epsilon"] = bad;
    EXPECT_THAT(std::string(Read(file).status().message()), HasSubstr("rms_epsilon")) << bad;
  }
  for (const float bad : {nan, 0.0f, -1e4f, 1e13f}) {
    LlamaFile file;
    file.reals["llama.rope.freq_base"] = bad;
    EXPECT_THAT(std::string(Read(file).status().message()), HasSubstr("freq_base")) << bad;
  }
}

TEST(ReadConfigTest, RefusesWhatWouldChangeTheArithmetic) {
  LlamaFile other;
  other.texts["general.architecture"] = "gpt2";
  EXPECT_THAT(std::string(Read(other).status().message()), HasSubstr("'gpt2'"));
  EXPECT_THAT(ErrorWith("llama.expert_count", 8), HasSubstr("experts"));
  EXPECT_THAT(ErrorWith("llama.attention.sliding_window", 64), HasSubstr("sliding"));
  LlamaFile scaled;
  scaled.texts["llama.rope.scaling.type"] = "yarn";
  EXPECT_THAT(std::string(Read(scaled).status().message()), HasSubstr("'yarn'"));
  LlamaFile wide;
  wide.integers["llama.attention.sliding_window"] = 128;  // hides nothing
  EXPECT_TRUE(Read(wide).ok());
}

TEST(ReadConfigTest, HonoursRopeDivisors) {
  LlamaFile file;
  file.tensors["rope_freqs.weight"] = {4};
  file.weight_of["rope_freqs.weight"] = 8;
  const absl::StatusOr<ModelConfig> config = Read(file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rope_divisors, std::vector<float>(4, 8.0f));

  for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    file.weight_of["rope_freqs.weight"] = bad;
    EXPECT_THAT(std::string(Read(file).status().message()), HasSubstr("rope_freqs")) << bad;
  }
  file.tensors["rope_freqs.weight"] = {5};
  EXPECT_FALSE(Read(file).ok());
}

}  // namespace
}  // namespace anchorage::model
