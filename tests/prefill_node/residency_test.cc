// The residency invariant of layer-major prefill (TideKV, arXiv 2610.24499, section on memory; eq.
// 9), asserted at every step of a 6,000-token prefill (1,800 tokens under a sanitizer).

#include <gtest/gtest.h>

#include "tests/prefill_node/fixture.h"
#include "tests/support/sanitized.h"

namespace anchorage::prefill {
namespace {

constexpr int64_t kTokens = kSanitized ? 1800 : 6000;
constexpr int64_t kChunk = 512;

class ResidencyTest : public PrefillFixture {
 protected:
  int64_t OneLayerKv() const {
    const model::ModelConfig& config = model_->config();
    return 2 * config.num_kv_heads * kTokens * config.head_dim * 2;
  }
  int64_t Bridge() const { return kTokens * model_->config().hidden_dim * 4; }
};

TEST_F(ResidencyTest, HoldsAtEveryStepOfALongPrefill) {
  const model::ModelConfig& config = model_->config();
  EngineOptions options = Options(kv::Layout::kCompact, Schedule::kLayerMajor, kChunk);
  const kv::RequestPlan plan = kv::PlanRequest(model_->geometry(), options.plan, kTokens, 0);
  const int64_t scalars = 16 * config.num_kv_heads * plan.layers[0].prefix_len();
  const int64_t observed =
      plan.layers[0].window_len * (2 * config.q_dim() + config.num_q_heads) * 4;
  kernels::Stream stream(2);
  const int64_t activations =
      model::PrefillScratch::Create(config, kChunk, kTokens, stream.num_threads())->bytes();

  int64_t chunks = 0;
  int64_t layers = 0;
  options.observer = [&](const ScheduleEvent& event) {
    if (event.kind == ScheduleEvent::Kind::kPromptDone) return;
    const MemoryUse live = accountant_.live();
    EXPECT_EQ(live[Component::kActiveKv], OneLayerKv());
    EXPECT_EQ(live[Component::kHiddenBridge], Bridge());
    EXPECT_EQ(live[Component::kChunkActivations], activations);
    // Scalars of the layer's end, a little scratch per thread, and the window's rows.
    EXPECT_LE(live[Component::kCompression], scalars + observed + (int64_t{1} << 20));
    const bool layer_done = event.kind == ScheduleEvent::Kind::kLayerDone;
    int64_t finished = 0;
    for (int64_t layer = 0; layer < event.layer + (layer_done ? 1 : 0); ++layer) {
      finished += plan.layers[static_cast<size_t>(layer)].region_bytes;
    }
    EXPECT_EQ(live[Component::kFinishedLayers], finished);
    EXPECT_EQ(live[Component::kStaging], 0);
    layer_done ? ++layers : ++chunks;
  };
  auto engine = Engine::Create(*model_, options, accountant_, Clock::Real(), stream);
  ASSERT_TRUE(engine.ok()) << engine.status();
  CollectingSink sink;
  const std::vector<int32_t> prompt = Prompt(kTokens, 1);
  PrefillRequest request;
  request.prompt_ids = prompt;
  request.sink = &sink;
  ASSERT_TRUE((*engine)->Run({&request, 1}).front().status.ok());
  EXPECT_EQ(chunks, config.num_layers * ((kTokens + kChunk - 1) / kChunk));
  EXPECT_EQ(layers, config.num_layers);

  // Afterwards nothing is left but what the sink holds, and then nothing.
  EXPECT_EQ(accountant_.live().transient, plan.region_bytes);
  sink.layers.clear();
  EXPECT_EQ(accountant_.live().transient, 0);
  engine->reset();
  EXPECT_EQ(accountant_.live()[Component::kWeights], 0);
}

TEST_F(ResidencyTest, ATakenLayerIsNoLongerHeld) {
  class ForgettingSink : public kv::LayerSink {
    absl::Status OnLayer(int, kv::CompressedLayer&&) override { return absl::OkStatus(); }
  } sink;
  EngineOptions options = Options(kv::Layout::kCompact, Schedule::kLayerMajor, kChunk);
  options.observer = [&](const ScheduleEvent& event) {
    if (event.kind == ScheduleEvent::Kind::kChunkDone) {
      EXPECT_EQ(accountant_.live()[Component::kFinishedLayers], 0);
    }
  };
  kernels::Stream stream(2);
  auto engine = Engine::Create(*model_, options, accountant_, Clock::Real(), stream);
  const std::vector<int32_t> prompt = Prompt(1500, 1);
  PrefillRequest request;
  request.prompt_ids = prompt;
  request.sink = &sink;
  ASSERT_TRUE((*engine)->Run({&request, 1}).front().status.ok());
}

TEST_F(ResidencyTest, ABatchThatIsPutAsideHoldsBridgesAndFinishedLayers) {
  const EngineOptions options = Options(kv::Layout::kCompact, Schedule::kLayerMajor, kChunk);
  kernels::Stream stream(2);
  auto engine = Engine::Create(*model_, options, accountant_, Clock::Real(), stream);
  const std::vector<int32_t> prompt = Prompt(1500, 1);
  PrefillRequest request;
  request.prompt_ids = prompt;
  const auto first = (*engine)->Start({&request, 1});
  first->Step();
  const MemoryUse one = accountant_.live();
  const auto second = (*engine)->Start({&request, 1});
  second->Step();
  const MemoryUse two = accountant_.live();
  EXPECT_EQ(two[Component::kActiveKv], one[Component::kActiveKv]);
  EXPECT_EQ(two[Component::kChunkActivations], one[Component::kChunkActivations]);
  EXPECT_EQ(two[Component::kHiddenBridge], 2 * one[Component::kHiddenBridge]);
}

TEST_F(ResidencyTest, ControlsKeepEveryLayerResident) {
  const int64_t layers = model_->config().num_layers;
  for (const Schedule schedule : {Schedule::kChunkMajor, Schedule::kOneShot}) {
    accountant_.ResetPeak();
    EngineOptions options = Options(kv::Layout::kCompact, schedule, kChunk);
    Run({Prompt(1500, 1)}, options, 2);
    const MemoryUse peak = accountant_.peak();
    EXPECT_EQ(peak[Component::kActiveKv], layers * OneLayerKv() * 1500 / kTokens);
    const int64_t bridge_rows = schedule == Schedule::kOneShot ? 1500 : kChunk;
    EXPECT_EQ(peak[Component::kHiddenBridge], bridge_rows * model_->config().hidden_dim * 4);
  }
}

}  // namespace
}  // namespace anchorage::prefill
