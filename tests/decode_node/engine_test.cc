#include "decode_node/core/engine.h"

#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "prefill_node/core/engine.h"
#include "tests/support/tiny_model.h"

namespace anchorage::decode {
namespace {

// Lands each layer in the decode engine as the data plane would.
class LandingSink : public kv::LayerSink {
 public:
  LandingSink(Engine& engine, AttemptId id, uint64_t nonce, int64_t num_layers)
      : engine_(engine), id_(id), nonce_(nonce), num_layers_(num_layers) {}

  absl::Status OnLayer(int layer, kv::CompressedLayer&& cache) override {
    auto running = engine_.Announce({.attempt = id_,
                                     .nonce = nonce_,
                                     .layer = layer,
                                     .num_layers = num_layers_,
                                     .length = cache.region.size(),
                                     .checksum = cache.checksum});
    if (!running.ok()) return running.status();
    std::copy_n(cache.region.data(), cache.region.size(), running->region.data());
    if (corrupt) running->region[7] ^= std::byte{1};
    auto landed = engine_.Quiet(running->token, absl::OkStatus());
    if (!landed.has_value()) return absl::AbortedError("ended");
    return engine_.Verify(running->token, *landed);
  }

  bool corrupt = false;

 private:
  Engine& engine_;
  const AttemptId id_;
  const uint64_t nonce_;
  const int64_t num_layers_;
};

// What the engine told of each attempt.
struct Recorder : EngineListener {
  void OnJoin(int64_t waited_ns) override { waits_ns.push_back(waited_ns); }
  void OnToken(AttemptId id, int64_t index, int32_t token, model::Finish finish) override {
    EXPECT_EQ(index, static_cast<int64_t>(tokens[id].size()));
    EXPECT_FALSE(finishes.contains(id) || ends.contains(id)) << "a token after the end";
    tokens[id].push_back(token);
    if (finish != model::Finish::kNone) finishes[id] = finish;
  }
  void OnEnded(AttemptId id, const absl::Status& status, const char*) override {
    EXPECT_FALSE(finishes.contains(id) || ends.contains(id)) << "ended twice";
    ends[id] = status;
  }
  void OnStep(int64_t, int64_t) override { ++steps; }

  std::map<AttemptId, std::vector<int32_t>> tokens;
  std::map<AttemptId, model::Finish> finishes;
  std::map<AttemptId, absl::Status> ends;
  std::vector<int64_t> waits_ns;
  int64_t steps = 0;
};

class EngineTest : public ::testing::TestWithParam<kv::Layout> {
 protected:
  static constexpr int64_t kLimit = 64 << 20;

  EngineTest() {
    plan_.layout = GetParam();
    model_ = model::Model::Load(testing::TinyModelPath()).value();
    engine_ = Engine::Create(*model_, {}, {.kv_limit_bytes = kLimit, .plan = plan_}, clock_,
                             stream_, recorder_)
                  .value();
    prefill_ =
        prefill::Engine::Create(*model_, {.plan = plan_, .model_stop_ids = {}, .observer = {}},
                                accountant_, clock_, stream_)
            .value();
  }

  static std::vector<int32_t> Prompt(uint64_t seed, size_t length) {
    std::mt19937_64 random(seed);
    std::vector<int32_t> ids(length);
    for (int32_t& id : ids) id = static_cast<int32_t>(3 + random() % 500);
    return ids;
  }

  SequenceRequest Request(uint64_t request, const std::vector<int32_t>& prompt, int64_t max_new) {
    SequenceRequest sequence;
    sequence.id = {request, 1};
    sequence.prompt_tokens = static_cast<int64_t>(prompt.size());
    sequence.max_new = max_new;
    sequence.sampling.ignore_eos = true;
    return sequence;
  }

  // Reserves, prefills, lands and closes: the sequence is ready to join.
  void Admit(uint64_t request, const std::vector<int32_t>& prompt, int64_t max_new) {
    const ReserveAnswer answer = engine_->Reserve(Request(request, prompt, max_new));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    LandingSink sink(*engine_, {request, 1}, answer.nonce, model_->config().num_layers);
    const prefill::PrefillRequest job{.prompt_ids = prompt,
                                      .sampling = {.ignore_eos = true},
                                      .packing = kCodePacking,
                                      .sink = &sink};
    const auto results = prefill_->Run({&job, 1});
    ASSERT_TRUE(results[0].status.ok()) << results[0].status;
    ASSERT_TRUE(engine_->Close({request, 1}, answer.nonce, results[0].first_token).ok());
  }

  std::vector<int32_t> Alone(uint64_t request, const std::vector<int32_t>& prompt,
                             int64_t max_new) {
    Admit(request, prompt, max_new);
    while (engine_->RunStep()) {
    }
    return recorder_.tokens[{request, 1}];
  }

  kv::PlanOptions plan_;
  FakeClock clock_;
  kernels::Stream stream_{2};
  Recorder recorder_;
  prefill::MemoryAccountant accountant_;
  std::unique_ptr<const model::Model> model_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<prefill::Engine> prefill_;
};

INSTANTIATE_TEST_SUITE_P(Layouts, EngineTest,
                         ::testing::Values(kv::Layout::kDense, kv::Layout::kCompact),
                         [](const auto& info) { return kv::LayoutName(info.param); });

TEST_P(EngineTest, GeneratesUpToTheLimitAndGivesEverythingBack) {
  EXPECT_EQ(Alone(1, Prompt(1, 300), 70).size(), 70u);
  EXPECT_EQ(recorder_.finishes.at({1, 1}), model::Finish::kLength);
  EXPECT_EQ(engine_->usage(), (ArenaUsage{.limit_bytes = kLimit}));
  EXPECT_EQ(recorder_.steps, 69);
}

TEST_P(EngineTest, TellsHowLongASequenceWaitedToJoinTheBatch) {
  Admit(1, Prompt(1, 40), 5);
  clock_.AdvanceNs(700);
  Admit(2, Prompt(2, 40), 5);
  clock_.AdvanceNs(20);
  while (engine_->RunStep()) clock_.AdvanceNs(5'000);
  EXPECT_EQ(recorder_.waits_ns, (std::vector<int64_t>{720, 20}));
}

TEST_P(EngineTest, ASequenceGetsTheSameTokensAloneAndInABatchThatChanges) {
  const std::vector<size_t> lengths = {300, 40, 1, 700, 129};
  std::vector<std::vector<int32_t>> alone;
  for (size_t i = 0; i < lengths.size(); ++i) {
    alone.push_back(Alone(100 + i, Prompt(i, lengths[i]), 20 + static_cast<int64_t>(i)));
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    Admit(200 + i, Prompt(i, lengths[i]), 20 + static_cast<int64_t>(i));
    engine_->RunStep();  // joins one after the other
    engine_->RunStep();
  }
  while (engine_->RunStep()) {
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    EXPECT_EQ((recorder_.tokens[{200 + i, 1}]), alone[i]) << i;
  }
}

TEST_P(EngineTest, CancelEndsOnceWhereverTheAttemptIs) {
  const std::vector<int32_t> prompt = Prompt(3, 200);
  ASSERT_TRUE(engine_->Reserve(Request(1, prompt, 8)).status.ok());
  EXPECT_TRUE(engine_->Cancel({1, 1}));  // landing
  EXPECT_FALSE(engine_->Cancel({1, 1}));
  Admit(2, prompt, 8);
  EXPECT_TRUE(engine_->Cancel({2, 1}));  // ready, not joined
  engine_->RunStep();
  Admit(3, prompt, 8);
  engine_->RunStep();
  EXPECT_TRUE(engine_->Cancel({3, 1}));  // in the batch
  engine_->RunStep();
  EXPECT_FALSE(engine_->Cancel({3, 1}));
  EXPECT_FALSE(engine_->Cancel({4, 1}));  // never heard of
  for (uint64_t request = 1; request <= 3; ++request) {
    EXPECT_EQ((recorder_.ends.at({request, 1}).code()), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(engine_->usage(), (ArenaUsage{.limit_bytes = kLimit}));
}

TEST_P(EngineTest, ACorruptLayerEndsTheAttempt) {
  const std::vector<int32_t> prompt = Prompt(4, 300);
  const ReserveAnswer answer = engine_->Reserve(Request(1, prompt, 8));
  LandingSink sink(*engine_, {1, 1}, answer.nonce, model_->config().num_layers);
  sink.corrupt = true;
  const prefill::PrefillRequest job{
      .prompt_ids = prompt, .sampling = {}, .packing = kCodePacking, .sink = &sink};
  EXPECT_EQ(prefill_->Run({&job, 1})[0].status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ((recorder_.ends.at({1, 1}).code()), absl::StatusCode::kDataLoss);
  EXPECT_EQ(engine_->usage(), (ArenaUsage{.limit_bytes = kLimit}));
}

TEST_P(EngineTest, RefusesWhatDoesNotFitAndSaysWhetherItEverWill) {
  const int64_t context = model_->config().context_length;
  SequenceRequest request = Request(1, {}, 1);
  request.prompt_tokens = context;
  EXPECT_EQ(engine_->Reserve(request).status.code(), absl::StatusCode::kInvalidArgument);
  request.prompt_tokens = 0;
  EXPECT_EQ(engine_->Reserve(request).status.code(), absl::StatusCode::kInvalidArgument);
  request.prompt_tokens = context / 2;
  request.max_new = context / 2;
  int64_t granted = 0;
  ReserveAnswer answer;
  do {
    request.id.request = static_cast<uint64_t>(10 + granted);
    answer = engine_->Reserve(request);
    granted += answer.status.ok() ? 1 : 0;
  } while (answer.status.ok());
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(answer.never);
  EXPECT_EQ(granted, kLimit / answer.bytes);
  EXPECT_EQ(answer.headroom_bytes, kLimit - granted * answer.bytes);
}

TEST_P(EngineTest, AnExpiredLeaseEndsTheAttempt) {
  ASSERT_TRUE(engine_->Reserve(Request(1, Prompt(1, 100), 8)).status.ok());
  EXPECT_FALSE(engine_->ExpireLeases());
  clock_.AdvanceNs(11'000'000'000);
  EXPECT_TRUE(engine_->ExpireLeases());
  EXPECT_EQ((recorder_.ends.at({1, 1}).code()), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(engine_->usage(), (ArenaUsage{.limit_bytes = kLimit}));
}

TEST_P(EngineTest, StopIdsEndTheGeneration) {
  const std::vector<int32_t> prompt = Prompt(1, 300);
  const std::vector<int32_t> free = Alone(1, prompt, 12);
  SequenceRequest request = Request(2, prompt, 12);
  request.sampling.stop_ids = {free[5]};
  const ReserveAnswer answer = engine_->Reserve(request);
  LandingSink sink(*engine_, {2, 1}, answer.nonce, model_->config().num_layers);
  const prefill::PrefillRequest job{.prompt_ids = prompt,
                                    .sampling = {.ignore_eos = true},
                                    .packing = kCodePacking,
                                    .sink = &sink};
  const auto results = prefill_->Run({&job, 1});
  ASSERT_TRUE(engine_->Close({2, 1}, answer.nonce, results[0].first_token).ok());
  while (engine_->RunStep()) {
  }
  const std::vector<int32_t>& stopped = recorder_.tokens[{2, 1}];
  EXPECT_EQ(stopped.back(), free[5]);
  EXPECT_EQ(recorder_.finishes.at({2, 1}), model::Finish::kStop);
  EXPECT_EQ(stopped, std::vector<int32_t>(
                         free.begin(), free.begin() + static_cast<std::ptrdiff_t>(stopped.size())));
}

}  // namespace
}  // namespace anchorage::decode
