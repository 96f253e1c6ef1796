#include "tools/local_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/tiny_model.h"

namespace anchorage::tools {
namespace {

class LocalEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = model::Model::Load(testing::TinyModelPath());
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  std::vector<int32_t> Prompt(int64_t tokens, uint32_t seed) const {
    std::mt19937 rng(seed);
    std::vector<int32_t> ids(static_cast<size_t>(tokens));
    for (int32_t& id : ids) id = static_cast<int32_t>(rng() % 512);
    return ids;
  }

  std::unique_ptr<LocalEngine> Engine(kv::Layout layout,
                                      prefill::Schedule schedule = prefill::Schedule::kLayerMajor,
                                      int threads = 2) {
    LocalOptions options;
    options.threads = threads;
    options.prefill.plan.layout = layout;
    options.prefill.schedule = schedule;
    options.prefill.model_stop_ids = {0, 2};
    auto engine = LocalEngine::Create(*model_, options, Clock::Real());
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  // Of the token after `ids`, by a prefill alone.
  std::vector<float> PrefillLogits(const std::vector<int32_t>& ids) {
    kernels::Stream stream(1);
    prefill::MemoryAccountant accountant;
    prefill::EngineOptions options;
    options.plan.layout = kv::Layout::kDense;
    auto engine = prefill::Engine::Create(*model_, options, accountant, Clock::Real(), stream);
    prefill::PrefillRequest request;
    request.prompt_ids = ids;
    request.logit_rows = 1;
    return std::move((*engine)->Run({&request, 1}).front().logits);
  }

  static LocalRequest Request(std::vector<int32_t> prompt, int64_t max_new) {
    LocalRequest request;
    request.prompt_ids = std::move(prompt);
    request.max_new = max_new;
    return request;
  }

  std::unique_ptr<const model::Model> model_;
};

// Decoding over a dense cache says what a prefill of everything so far would say. A prefill rounds
// keys to bf16 before RoPE and decoding after it, so the two may part where tokens are nearly even:
// then the decoded one must be within 1 % of the logits' range of the prefill's best.
TEST_F(LocalEngineTest, DecodingContinuesThePrefill) {
  const auto engine = Engine(kv::Layout::kDense);
  for (const int64_t tokens : {1, 40, 63, 64, 300}) {
    SCOPED_TRACE(tokens);
    LocalRequest request = Request(Prompt(tokens, static_cast<uint32_t>(tokens)), 12);
    request.sampling.ignore_eos = true;
    const absl::StatusOr<LocalResult> result = engine->Run(request);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->tokens.size(), 12u);
    EXPECT_EQ(result->finish, model::Finish::kLength);
    std::vector<int32_t> so_far = request.prompt_ids;
    for (const int32_t token : result->tokens) {
      std::vector<float> logits = PrefillLogits(so_far);
      logits[0] = logits[2] = -1e9f;  // stop tokens, masked
      const float best = *std::max_element(logits.begin(), logits.end());
      logits[0] = logits[2] = best;
      const float worst = *std::min_element(logits.begin(), logits.end());
      EXPECT_GE(logits[static_cast<size_t>(token)], best - 0.01f * (best - worst));
      so_far.push_back(token);
    }
  }
}

TEST_F(LocalEngineTest, SchedulesThreadsAndCompanyChangeNoToken) {
  for (const kv::Layout layout : {kv::Layout::kDense, kv::Layout::kCompact}) {
    std::vector<LocalRequest> requests;
    for (const int64_t tokens : {3, 70, 200, 420, 900}) {
      requests.push_back(Request(Prompt(tokens, static_cast<uint32_t>(tokens)), 40));
    }
    requests[1].sampling = {.temperature = 1, .top_p = 0.9f, .seed = 5};
    std::vector<std::vector<int32_t>> alone;
    const auto engine = Engine(layout);
    for (const LocalRequest& request : requests) alone.push_back(engine->Run(request)->tokens);
    const auto together = engine->RunTogether(requests);
    ASSERT_TRUE(together.ok()) << together.status();
    for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ((*together)[i].tokens, alone[i]);
    for (const prefill::Schedule schedule :
         {prefill::Schedule::kChunkMajor, prefill::Schedule::kOneShot}) {
      const auto other = Engine(layout, schedule, 1);
      for (size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(other->Run(requests[i])->tokens, alone[i]) << prefill::ScheduleName(schedule);
      }
    }
  }
}

TEST_F(LocalEngineTest, ArenaHoldsThePlanToTheByteAndIsEmptyAfterwards) {
  const auto engine = Engine(kv::Layout::kCompact);
  const decode::ArenaUsage before = engine->arena();
  for (const int64_t tokens : {10, 700}) {
    for (const int64_t max_new : {1, 33}) {
      const absl::StatusOr<LocalResult> result = engine->Run(Request(Prompt(tokens, 1), max_new));
      ASSERT_TRUE(result.ok()) << result.status();
      const kv::RequestPlan plan = kv::PlanRequest(model_->geometry(), {}, tokens, max_new);
      EXPECT_EQ(result->arena_bytes, plan.bytes);
      EXPECT_EQ(result->prefill.compressed_bytes, plan.prompt_bytes);
      EXPECT_EQ(engine->arena(), before);
      EXPECT_EQ(engine->accountant().live().transient, 0);
    }
  }
}

TEST_F(LocalEngineTest, StopsAtStopTokens) {
  const auto engine = Engine(kv::Layout::kCompact);
  LocalRequest request = Request(Prompt(100, 9), 20);
  const LocalResult free = *engine->Run(request);
  ASSERT_GE(free.tokens.size(), 4u);
  request.sampling.stop_ids = {free.tokens[3]};
  const LocalResult stopped = *engine->Run(request);
  EXPECT_EQ(stopped.finish, model::Finish::kStop);
  EXPECT_EQ(stopped.tokens.back(), free.tokens[3]);
  EXPECT_LE(stopped.tokens.size(), 4u);
  request.sampling.stop_ids = {free.tokens[0]};
  const LocalResult at_once = *engine->Run(request);
  EXPECT_EQ(at_once.finish, model::Finish::kStop);
  EXPECT_EQ(at_once.tokens.size(), 1u);
}

TEST_F(LocalEngineTest, ShowsEachTokenAsItComes) {
  const auto engine = Engine(kv::Layout::kCompact);
  std::vector<int32_t> shown;
  LocalRequest request = Request(Prompt(300, 4), 10);
  request.on_token = [&](int32_t token) { shown.push_back(token); };
  EXPECT_EQ(engine->Run(request)->tokens, shown);
}

TEST_F(LocalEngineTest, HandsOnTheErrorOfAStage) {
  const auto engine = Engine(kv::Layout::kCompact);
  EXPECT_TRUE(absl::IsInvalidArgument(engine->Run(Request({1, 9999}, 4)).status()));
  EXPECT_TRUE(engine->Run(Request({1, 2, 3}, 4)).ok());
}

}  // namespace
}  // namespace anchorage::tools
