#include "prefill_node/core/engine.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/prefill_node/fixture.h"
#include "tests/support/sanitized.h"

namespace anchorage::prefill {
namespace {

class EngineTest : public PrefillFixture {};

TEST_F(EngineTest, EveryScheduleGivesTheSameBits) {
  for (const kv::Layout layout : {kv::Layout::kDense, kv::Layout::kCompact}) {
    const std::vector<int32_t> prompt = Prompt(700, 1);
    const Outcome layer_major = std::move(Run({prompt}, Options(layout)).front());
    ASSERT_EQ(layer_major.layers.size(), 4u);
    for (const Schedule schedule : {Schedule::kChunkMajor, Schedule::kOneShot}) {
      SCOPED_TRACE(ScheduleName(schedule));
      ExpectSame(layer_major, Run({prompt}, Options(layout, schedule, 256)).front());
    }
  }
}

TEST_F(EngineTest, ChunksAndThreadsChangeNoByteOfTheCompressedCache) {
  const std::vector<int32_t> prompt = Prompt(kSanitized ? 700 : 2100, 2);
  const Outcome expected =
      std::move(Run({prompt}, Options(kv::Layout::kCompact, Schedule::kLayerMajor, 2048)).front());
  EXPECT_EQ(expected.layers.front().plan.layout, kv::Layout::kCompact);
  for (const int threads : {1, 2}) {
    for (const int64_t chunk : {64, 500, 2048}) {
      SCOPED_TRACE(std::to_string(threads) + " threads, chunks of " + std::to_string(chunk));
      ExpectSame(expected,
                 Run({prompt}, Options(kv::Layout::kCompact, Schedule::kLayerMajor, chunk), threads)
                     .front());
    }
  }
}

TEST_F(EngineTest, WhoSharesTheBatchChangesNoBit) {
  // Lengths on both sides of the decode products, of the dense pass-through and of sending at once.
  std::vector<std::vector<int32_t>> prompts;
  for (const int64_t tokens : {1, 5, 63, 64, 65, 127, 255, 256, 300}) {
    prompts.push_back(Prompt(tokens, static_cast<uint32_t>(tokens)));
  }
  const EngineOptions options = Options(kv::Layout::kCompact);
  const std::vector<Outcome> together = Run(prompts, options, 2);
  for (size_t i = 0; i < prompts.size(); ++i) {
    SCOPED_TRACE(prompts[i].size());
    ExpectSame(together[i], Run({prompts[i]}, options).front());
  }
}

TEST_F(EngineTest, LayersArriveInOrderAndAsPlanned) {
  for (const int64_t tokens : {40, 600}) {
    const std::vector<int32_t> prompt = Prompt(tokens, 3);
    const EngineOptions options = Options(kv::Layout::kCompact);
    const Outcome outcome = std::move(Run({prompt}, options).front());
    const kv::RequestPlan plan =
        kv::PlanRequest(model_->geometry(), options.plan, tokens, /*max_new=*/0);
    ASSERT_EQ(outcome.layers.size(), plan.layers.size());
    for (size_t i = 0; i < plan.layers.size(); ++i) {
      EXPECT_EQ(outcome.layers[i].layer, static_cast<int>(i));
      EXPECT_EQ(outcome.layers[i].region.size(), static_cast<size_t>(plan.layers[i].region_bytes));
    }
    EXPECT_EQ(outcome.result.compressed_bytes, plan.prompt_bytes);
    EXPECT_EQ(outcome.result.layers.size(), plan.layers.size());
  }
}

TEST_F(EngineTest, ShortPromptsAreHandedOverAtTheEnd) {
  for (const int64_t tokens : {kSendAtEndTokens - 1, kSendAtEndTokens}) {
    std::vector<std::string> events;
    CollectingSink sink;
    sink.on_layer = [&](int) {
      events.push_back("layer");
      return absl::OkStatus();
    };
    EngineOptions options = Options(kv::Layout::kCompact);
    options.observer = [&](const ScheduleEvent& event) {
      if (event.kind == ScheduleEvent::Kind::kLayerDone) events.push_back("done");
    };
    kernels::Stream stream(1);
    auto engine = Engine::Create(*model_, options, accountant_, Clock::Real(), stream);
    const std::vector<int32_t> prompt = Prompt(tokens, 4);
    PrefillRequest request;
    request.prompt_ids = prompt;
    request.sink = &sink;
    ASSERT_TRUE((*engine)->Run({&request, 1}).front().status.ok());
    const std::vector<std::string> late = {"done",  "done",  "done",  "done",
                                           "layer", "layer", "layer", "layer"};
    const std::vector<std::string> at_once = {"layer", "done", "layer", "done",
                                              "layer", "done", "layer", "done"};
    EXPECT_EQ(events, tokens < kSendAtEndTokens ? late : at_once);
  }
}

TEST_F(EngineTest, ABatchMayBePutAsideForAnotherBetweenLayers) {
  const std::vector<int32_t> long_prompt = Prompt(900, 5);
  const std::vector<int32_t> short_prompt = Prompt(100, 6);
  const EngineOptions options = Options(kv::Layout::kCompact);
  const Outcome long_alone = std::move(Run({long_prompt}, options).front());
  const Outcome short_alone = std::move(Run({short_prompt}, options).front());

  kernels::Stream stream(1);
  auto engine = Engine::Create(*model_, options, accountant_, Clock::Real(), stream);
  CollectingSink long_sink;
  CollectingSink short_sink;
  PrefillRequest long_request;
  long_request.prompt_ids = long_prompt;
  long_request.sink = &long_sink;
  long_request.logit_rows = 1;
  PrefillRequest short_request;
  short_request.prompt_ids = short_prompt;
  short_request.sink = &short_sink;
  short_request.logit_rows = 1;
  const auto batch = (*engine)->Start({&long_request, 1});
  batch->Step();
  batch->Step();
  std::vector<PrefillResult> overtaking = (*engine)->Run({&short_request, 1});
  while (!batch->done()) batch->Step();
  std::vector<PrefillResult> overtaken = batch->TakeResults();
  ExpectSame({std::move(long_sink.layers), std::move(overtaken.front())}, long_alone);
  ExpectSame({std::move(short_sink.layers), std::move(overtaking.front())}, short_alone);
}

TEST_F(EngineTest, CancellingTakesEffectAtTheNextChunk) {
  for (const Schedule schedule :
       {Schedule::kLayerMajor, Schedule::kChunkMajor, Schedule::kOneShot}) {
    SCOPED_TRACE(ScheduleName(schedule));
    std::atomic<bool> cancelled = false;
    int64_t chunks = 0;
    EngineOptions options = Options(kv::Layout::kCompact, schedule, 100);
    options.observer = [&](const ScheduleEvent& event) {
      if (event.kind == ScheduleEvent::Kind::kChunkDone && ++chunks == 3) cancelled = true;
    };
    kernels::Stream stream(1);
    auto engine = Engine::Create(*model_, options, accountant_, Clock::Real(), stream);
    const std::vector<int32_t> prompt = Prompt(450, 7);
    PrefillRequest request;
    request.prompt_ids = prompt;
    request.cancelled = &cancelled;
    const PrefillResult result = std::move((*engine)->Run({&request, 1}).front());
    EXPECT_TRUE(absl::IsCancelled(result.status)) << result.status;
    EXPECT_EQ(chunks, 3);
    EXPECT_EQ(accountant_.live().transient, 0);
  }
}

TEST_F(EngineTest, OneCancelledPromptLeavesItsBatchAlone) {
  std::atomic<bool> cancelled = true;
  const std::vector<int32_t> first = Prompt(80, 8);
  const std::vector<int32_t> second = Prompt(90, 9);
  const EngineOptions options = Options(kv::Layout::kCompact);
  const Outcome alone = std::move(Run({second}, options).front());
  kernels::Stream stream(1);
  auto engine = Engine::Create(*model_, options, accountant_, Clock::Real(), stream);
  CollectingSink sink;
  std::vector<PrefillRequest> requests(2);
  requests[0].prompt_ids = first;
  requests[0].cancelled = &cancelled;
  requests[1].prompt_ids = second;
  requests[1].sink = &sink;
  requests[1].logit_rows = 1;
  std::vector<PrefillResult> results = (*engine)->Run(requests);
  EXPECT_TRUE(absl::IsCancelled(results[0].status));
  ExpectSame({std::move(sink.layers), std::move(results[1])}, alone);
}

TEST_F(EngineTest, BadRequestsFailAlone) {
  const std::vector<int32_t> good = Prompt(70, 10);
  const std::vector<int32_t> empty;
  const std::vector<int32_t> unknown = {1, 2, 512};
  const std::vector<int32_t> too_long(static_cast<size_t>(model_->config().context_length + 1), 3);
  kernels::Stream stream(1);
  auto engine =
      Engine::Create(*model_, Options(kv::Layout::kCompact), accountant_, Clock::Real(), stream);
  std::vector<PrefillRequest> requests(5);
  requests[0].prompt_ids = empty;
  requests[1].prompt_ids = unknown;
  requests[2].prompt_ids = too_long;
  requests[3].prompt_ids = good;
  requests[3].sampling.temperature = -1;
  requests[4].prompt_ids = good;
  const std::vector<PrefillResult> results = (*engine)->Run(requests);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(absl::IsInvalidArgument(results[i].status)) << i << results[i].status;
  }
  EXPECT_TRUE(results[4].status.ok()) << results[4].status;
  EXPECT_GE(results[4].first_token, 0);
}

TEST_F(EngineTest, AnErrorOfTheSinkEndsThePrompt) {
  CollectingSink sink;
  sink.on_layer = [](int layer) {
    return layer == 2 ? absl::UnavailableError("the peer is gone") : absl::OkStatus();
  };
  kernels::Stream stream(1);
  auto engine =
      Engine::Create(*model_, Options(kv::Layout::kCompact), accountant_, Clock::Real(), stream);
  const std::vector<int32_t> prompt = Prompt(300, 11);
  PrefillRequest request;
  request.prompt_ids = prompt;
  request.sink = &sink;
  EXPECT_TRUE(absl::IsUnavailable((*engine)->Run({&request, 1}).front().status));
  EXPECT_EQ(sink.layers.size(), 2u);
  sink.layers.clear();
  EXPECT_EQ(accountant_.live().transient, 0);
}

TEST_F(EngineTest, RefusesOptionsThatMakeNoSense) {
  kernels::Stream stream(1);
  EngineOptions chunk = Options(kv::Layout::kCompact);
  chunk.chunk_tokens = 0;
  EXPECT_FALSE(Engine::Create(*model_, chunk, accountant_, Clock::Real(), stream).ok());
  EngineOptions plan = Options(kv::Layout::kCompact);
  plan.plan.theta_ppm = 0;
  EXPECT_FALSE(Engine::Create(*model_, plan, accountant_, Clock::Real(), stream).ok());
}

TEST_F(EngineTest, HandsBackTheLogitsAndHiddenStatesThatWereAskedFor) {
  const std::vector<int32_t> prompt = Prompt(130, 12);
  const auto run = [&](const EngineOptions& options, int64_t rows) {
    kernels::Stream stream(1);
    auto engine = Engine::Create(*model_, options, accountant_, Clock::Real(), stream);
    PrefillRequest request;
    request.prompt_ids = prompt;
    request.logit_rows = rows;
    request.keep_hidden = true;
    return std::move((*engine)->Run({&request, 1}).front());
  };
  const PrefillResult many = run(Options(kv::Layout::kCompact), 130);
  const PrefillResult last = run(Options(kv::Layout::kCompact, Schedule::kChunkMajor, 50), 1);
  const size_t vocab = static_cast<size_t>(model_->config().vocab_size);
  ASSERT_EQ(many.logits.size(), 130 * vocab);
  ASSERT_EQ(last.logits.size(), vocab);
  EXPECT_EQ(std::memcmp(many.logits.data() + 129 * vocab, last.logits.data(), vocab * 4), 0);
  ASSERT_EQ(many.hidden.size(), 130 * static_cast<size_t>(model_->config().hidden_dim) * 4);
  ASSERT_EQ(last.hidden.size(), many.hidden.size());
  EXPECT_EQ(std::memcmp(many.hidden.data(), last.hidden.data(), many.hidden.size()), 0);
}

TEST_F(EngineTest, AResumedPromptDrawsTheSameRandomToken) {
  // The first token of prompt + t is drawn with the number of its own position, whoever draws it.
  const std::vector<int32_t> prompt = Prompt(100, 13);
  const auto first_token = [&](uint64_t seed) {
    kernels::Stream stream(1);
    auto engine =
        Engine::Create(*model_, Options(kv::Layout::kCompact), accountant_, Clock::Real(), stream);
    PrefillRequest request;
    request.prompt_ids = prompt;
    request.sampling.temperature = 5;
    request.sampling.seed = seed;
    return (*engine)->Run({&request, 1}).front().first_token;
  };
  EXPECT_EQ(first_token(1), first_token(1));
  EXPECT_FALSE(first_token(1) == first_token(2) && first_token(2) == first_token(3) &&
               first_token(3) == first_token(4));
}

TEST(ScheduleTest, NamesAreReadBack) {
  for (const Schedule schedule :
       {Schedule::kLayerMajor, Schedule::kChunkMajor, Schedule::kOneShot}) {
    EXPECT_EQ(*ParseSchedule(ScheduleName(schedule)), schedule);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ParseSchedule("sideways").status()));
}

}  // namespace
}  // namespace anchorage::prefill
