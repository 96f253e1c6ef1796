// A tiny model and what a prefill of it leaves behind.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "model/model.h"
#include "prefill_node/core/engine.h"
#include "tests/prefill_node/collecting_sink.h"
#include "tests/support/tiny_model.h"

namespace anchorage::prefill {

// What two runs of a prompt must agree on, to the bit.
struct Outcome {
  std::vector<kv::CompressedLayer> layers;
  PrefillResult result;
};

class PrefillFixture : public ::testing::Test {
 protected:
  void SetUp() override { LoadModel({}); }

  void LoadModel(const testing::TinyModelOptions& options) {
    auto model = model::Model::Load(testing::TinyModelPath(options));
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  std::vector<int32_t> Prompt(int64_t tokens, uint32_t seed) const {
    std::mt19937 rng(seed);
    std::vector<int32_t> ids(static_cast<size_t>(tokens));
    const auto vocab = static_cast<uint32_t>(model_->config().vocab_size);
    for (int32_t& id : ids) id = static_cast<int32_t>(rng() % vocab);
    return ids;
  }

  static EngineOptions Options(kv::Layout layout, Schedule schedule = Schedule::kLayerMajor,
                               int64_t chunk_tokens = 2048) {
    EngineOptions options;
    options.schedule = schedule;
    options.chunk_tokens = chunk_tokens;
    options.plan.layout = layout;
    return options;
  }

  // Runs the prompts as one batch.
  std::vector<Outcome> Run(const std::vector<std::vector<int32_t>>& prompts,
                           const EngineOptions& options, int threads = 1) {
    kernels::Stream stream(threads);
    auto engine = Engine::Create(*model_, options, accountant_, Clock::Real(), stream);
    EXPECT_TRUE(engine.ok()) << engine.status();
    std::vector<CollectingSink> sinks(prompts.size());
    std::vector<PrefillRequest> requests(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      requests[i].prompt_ids = prompts[i];
      requests[i].sink = &sinks[i];
      requests[i].logit_rows = 1;
    }
    std::vector<PrefillResult> results = (*engine)->Run(requests);
    std::vector<Outcome> outcomes;
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_TRUE(results[i].status.ok()) << results[i].status;
      outcomes.push_back({std::move(sinks[i].layers), std::move(results[i])});
    }
    return outcomes;
  }

  static void ExpectSame(const Outcome& a, const Outcome& b) {
    EXPECT_EQ(a.result.first_token, b.result.first_token);
    ASSERT_EQ(a.result.logits.size(), b.result.logits.size());
    EXPECT_EQ(std::memcmp(a.result.logits.data(), b.result.logits.data(),
                          a.result.logits.size() * sizeof(float)),
              0);
    ASSERT_EQ(a.layers.size(), b.layers.size());
    for (size_t i = 0; i < a.layers.size(); ++i) {
      SCOPED_TRACE(i);
      ASSERT_EQ(a.layers[i].region.size(), b.layers[i].region.size());
      EXPECT_EQ(std::memcmp(a.layers[i].region.data(), b.layers[i].region.data(),
                            a.layers[i].region.size()),
                0);
      EXPECT_EQ(a.layers[i].checksum, b.layers[i].checksum);
    }
  }

  std::unique_ptr<const model::Model> model_;
  MemoryAccountant accountant_;
};

}  // namespace anchorage::prefill
