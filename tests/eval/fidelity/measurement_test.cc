// From a prompt to its result, on a model without meaning.
#include "eval/fidelity/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "eval/random.h"
#include "files/gguf.h"
#include "kv/plan/plan.h"
#include "tests/support/tiny_model.h"

namespace anchorage::eval {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTokens = 600;
constexpr int64_t kForced = 12;
constexpr int64_t kProbeRows = 5;

class MeasurementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = model::Model::Load(testing::TinyModelPath());
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  // Besides what a run compares, the full cache a second time.
  static std::vector<Candidate> Candidates() {
    const std::vector<std::string> methods = {"compact", "paper"};
    const std::vector<double> ratios = {20};
    std::vector<Candidate> candidates = *MakeCandidates(methods, ratios, kv::PlanOptions());
    candidates.push_back({"again", 1, candidates.front().options});
    return candidates;
  }

  static Prompt MakePrompt() {
    Random random(3);
    Prompt prompt{.kind = "retrieval", .index = 2, .seq_len = kTokens};
    for (int64_t i = 0; i < kTokens + kForced + 1; ++i) {
      prompt.ids.push_back(static_cast<int32_t>(random.Below(512)));
    }
    prompt.answers = {{kTokens + 1, kTokens + 4}, {kTokens + 6, kTokens + 8}};
    return prompt;
  }

  PromptResult Measure(int threads) {
    kernels::Stream stream(threads);
    auto measurement = Measurement::Create(*model_, Candidates(), kProbeRows, stream);
    EXPECT_TRUE(measurement.ok()) << measurement.status();
    auto result = measurement->Run(MakePrompt());
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  std::unique_ptr<const model::Model> model_;
};

TEST_F(MeasurementTest, TheFullCacheIsItself) {
  const PromptResult result = Measure(2);
  for (const size_t at : {size_t{0}, size_t{3}}) {
    const CandidateResult& full = result.candidates[at];
    EXPECT_EQ(full.kl, 0);
    EXPECT_NEAR(full.js, 0, 1e-12);
    EXPECT_EQ(full.top1, 1);
    EXPECT_EQ(full.ratio, 1);
    EXPECT_EQ(full.answer, result.candidates[0].answer);
    EXPECT_EQ(full.cosine_low, 0);
    EXPECT_NEAR(full.cosine_mean, 1, 1e-6);
    EXPECT_THAT(full.logit_errors, ::testing::ElementsAre(0, 0, 0, 0));
  }
  EXPECT_LT(result.floor_kl, 1e-3);
}

TEST_F(MeasurementTest, ACompressedCacheIsFurtherAndEveryFigureIsFinite) {
  const PromptResult result = Measure(2);
  const model::ModelConfig& config = model_->config();
  for (const size_t at : {size_t{1}, size_t{2}}) {
    const CandidateResult& row = result.candidates[at];
    EXPECT_GT(row.kl, 1e-6) << row.name;
    EXPECT_GT(row.js, 1e-7);
    EXPECT_LE(row.js, std::log(2.0));
    EXPECT_TRUE(std::isfinite(row.kl) && std::isfinite(row.surprise));
    ASSERT_TRUE(row.answer && row.later_answers);
    EXPECT_LT(*row.answer, 0);
    EXPECT_NE(*row.answer, *result.candidates[0].answer);
    EXPECT_LT(row.cosine_mean, 0.9999);
    EXPECT_GT(row.cosine_mean, 0);
    EXPECT_EQ(std::accumulate(row.distance_bins.begin(), row.distance_bins.end(), int64_t{0}),
              config.num_layers * kProbeRows * config.num_q_heads);
    ASSERT_EQ(std::ssize(row.logit_errors), config.num_layers);
    for (const double error : row.logit_errors) EXPECT_TRUE(error > 0 && error < 2) << error;
    ASSERT_EQ(std::ssize(row.head_cosines), config.num_layers * config.num_q_heads);
    const double mean = std::accumulate(row.head_cosines.begin(), row.head_cosines.end(), 0.0) /
                        static_cast<double>(row.head_cosines.size());
    EXPECT_NEAR(mean, row.cosine_mean, 1e-5);
  }
}

TEST_F(MeasurementTest, BytesAndResidualsAreThoseOfThePlan) {
  const PromptResult result = Measure(2);
  const std::vector<Candidate> candidates = Candidates();
  for (size_t at = 0; at < candidates.size(); ++at) {
    const kv::RequestPlan plan =
        kv::PlanRequest(model_->geometry(), candidates[at].options, kTokens, kForced);
    const CandidateResult& row = result.candidates[at];
    EXPECT_EQ(row.bytes, plan.prompt_bytes);
    double slots = 0;
    for (const kv::LayerPlan& layer : plan.layers) {
      slots += static_cast<double>(layer.key_slots + layer.value_slots);
    }
    const double counted =
        std::accumulate(row.residual_shares.begin(), row.residual_shares.end(), 0.0) * kTokens;
    EXPECT_NEAR(counted, slots, 0.01) << row.name;
    EXPECT_EQ(slots > 0, at == 1 || at == 2);
  }
}

TEST_F(MeasurementTest, TheAnswersAddUpToWhatTheirTokensCost) {
  // One answer over everything that is forced is the surprise of all positions.
  Prompt prompt = MakePrompt();
  prompt.answers = {{kTokens + 1, kTokens + kForced + 1}};
  kernels::Stream stream(1);
  auto measurement = Measurement::Create(*model_, Candidates(), kProbeRows, stream);
  const auto result = measurement->Run(prompt);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const CandidateResult& row : result->candidates) {
    EXPECT_NEAR(*row.answer, -row.surprise * kForced, 1e-9);
    EXPECT_FALSE(row.later_answers);
  }
}

TEST_F(MeasurementTest, EvictedPositionsHaveNoLogitsAndAblationsDo) {
  const std::vector<std::string> methods = {"snapkv", "recent", "rank-random"};
  const std::vector<double> ratios = {10};
  kernels::Stream stream(2);
  auto measurement = Measurement::Create(
      *model_, *MakeCandidates(methods, ratios, kv::PlanOptions()), kProbeRows, stream);
  ASSERT_TRUE(measurement.ok()) << measurement.status();
  const auto result = measurement->Run(MakePrompt());
  ASSERT_TRUE(result.ok()) << result.status();
  for (size_t at = 1; at < 4; ++at) {
    EXPECT_GT(result->candidates[at].kl, 0) << result->candidates[at].name;
    EXPECT_LT(result->candidates[at].cosine_mean, 0.9999);
    EXPECT_EQ(result->candidates[at].logit_errors.empty(), at < 3);
  }
}

TEST_F(MeasurementTest, ThePlanThatAnAblationMakesIsCheckedBeforeTheFirstPrompt) {
  const std::vector<std::string> methods = {"unpooled-utility"};
  const std::vector<double> ratios = {10};
  kv::PlanOptions even;
  even.utility_pool_width = 2;
  kernels::Stream stream(1);
  const auto check = [&](std::vector<Candidate> candidates) {
    auto measurement = Measurement::Create(*model_, std::move(candidates), kProbeRows, stream);
    return measurement->Check(MakePrompt());
  };
  // The ablation makes it odd.
  EXPECT_TRUE(check(*MakeCandidates(methods, ratios, even)).ok());
  std::vector<Candidate> wide = *MakeCandidates(methods, ratios, kv::PlanOptions());
  wide.back().ablation->window_len = 1'000'000;
  EXPECT_THAT(std::string(check(wide).message()), HasSubstr("unpooled-utility 10x: window"));
}

TEST_F(MeasurementTest, AFigureThatIsNotFiniteIsAnError) {
  const std::string path = ::testing::TempDir() + "/not_finite.gguf";
  std::filesystem::copy_file(testing::TinyModelPath(), path,
                             std::filesystem::copy_options::overwrite_existing);
  {
    const auto file = files::GgufFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto norm = std::find_if(
        file->tensors().begin(), file->tensors().end(),
        [](const files::TensorView& tensor) { return tensor.name == "output_norm.weight"; });
    ASSERT_NE(norm, file->tensors().end());
    const float nan = std::nanf("");
    std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(norm->file_offset));
    out.write(reinterpret_cast<const char*>(&nan), sizeof(nan));
  }
  auto model = model::Model::Load(path);
  ASSERT_TRUE(model.ok()) << model.status();
  kernels::Stream stream(2);
  auto measurement = Measurement::Create(**model, Candidates(), kProbeRows, stream);
  ASSERT_TRUE(measurement.ok()) << measurement.status();
  const auto result = measurement->Run(MakePrompt());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("nan"));
}

TEST(CheckFiniteTest, NamesTheFigure) {
  PromptResult result;
  result.candidates.push_back({.name = "compact 10x"});
  EXPECT_TRUE(CheckFinite(result).ok());
  const auto refused = [&result](const std::string& reason) {
    EXPECT_THAT(std::string(CheckFinite(result).message()), HasSubstr(reason));
  };
  CandidateResult& row = result.candidates.front();
  row.head_cosines = {1, std::nanf("")};
  refused("compact 10x: /head_cosines/1 is nan");
  row = {.name = "compact 10x", .answer = -std::numeric_limits<double>::infinity()};
  refused("compact 10x: /answer_log_p is -inf");
  result.floor_kl = std::nan("");
  refused("the uncompressed prefill: /floor_kl_nats is nan");
}

TEST_F(MeasurementTest, ThreadsChangeNothing) {
  PromptResult one = Measure(1);
  PromptResult three = Measure(3);
  one.seconds = three.seconds = 0;
  EXPECT_EQ(one, three);
}

TEST_F(MeasurementTest, TheSettingTellsPlansApart) {
  kernels::Stream stream(1);
  std::vector<Candidate> others = Candidates();
  others[1].options.num_pins += 1;
  const auto setting = [&](std::vector<Candidate> candidates, int64_t rows) {
    return Measurement::Create(*model_, std::move(candidates), rows, stream)->setting();
  };
  EXPECT_EQ(setting(Candidates(), 5), setting(Candidates(), 5));
  EXPECT_NE(setting(Candidates(), 5), setting(others, 5));
  EXPECT_NE(setting(Candidates(), 5), setting(Candidates(), 6));
}

TEST_F(MeasurementTest, RefusesWithARemedy) {
  kernels::Stream stream(1);
  EXPECT_FALSE(Measurement::Create(*model_, {}, 5, stream).ok());
  EXPECT_FALSE(Measurement::Create(*model_, Candidates(), 0, stream).ok());
  const std::vector<Candidate> many(65, Candidates().front());
  EXPECT_THAT(std::string(Measurement::Create(*model_, many, 5, stream).status().message()),
              HasSubstr("fewer --methods"));
  Prompt prompt = MakePrompt();
  prompt.ids.resize(9000);
  auto measurement = Measurement::Create(*model_, Candidates(), kProbeRows, stream);
  EXPECT_THAT(std::string(measurement->Run(prompt).status().message()), HasSubstr("context is"));
}

}  // namespace
}  // namespace anchorage::eval
