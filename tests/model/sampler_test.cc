#include "model/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "model/finish.h"

namespace anchorage::model {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Logits whose softmax at temperature 1 is `probabilities`.
std::vector<float> LogitsOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

absl::StatusOr<int32_t> Sample(const SamplingParams& params, std::vector<float> logits,
                               const SamplingContext& context = {}) {
  return SampleToken(params, context, logits);
}

// How often each token comes at `count` positions.
std::map<int32_t, double> Frequencies(const SamplingParams& params,
                                      const std::vector<float>& logits, int count = 20'000) {
  std::map<int32_t, double> share;
  for (int position = 0; position < count; ++position) {
    SamplingContext context;
    context.position = position;
    const absl::StatusOr<int32_t> token = Sample(params, logits, context);
    EXPECT_TRUE(token.ok()) << token.status();
    share[*token] += 1.0 / count;
  }
  return share;
}

// Five standard deviations of a share of 20,000 draws.
double Tolerance(double p) { return 5 * std::sqrt(p * (1 - p) / 20'000); }

TEST(SamplerTest, GreedyTakesTheLargestAndTheLowestIdOfEqualOnes) {
  EXPECT_EQ(*Sample({}, {1, 3, 2}), 1);
  EXPECT_EQ(*Sample({}, {1, 3, 3, 3}), 1);
  EXPECT_EQ(*Sample({}, {-kInfinity, -2, -kInfinity}), 1);
}

TEST(SamplerTest, RefusesLogitsThatAreNone) {
  for (const float temperature : {0.0f, 1.0f}) {
    const SamplingParams params{.temperature = temperature};
    EXPECT_TRUE(absl::IsDataLoss(Sample(params, {1, kNan, 2}).status()));
    EXPECT_TRUE(absl::IsDataLoss(Sample(params, {1, kInfinity, 2}).status()));
    EXPECT_TRUE(absl::IsDataLoss(Sample(params, {-kInfinity, -kInfinity}).status()));
  }
}

TEST(SamplerTest, DrawsFromTheSoftmax) {
  const std::vector<double> p = {0.5, 0.3, 0.15, 0.05};
  const auto share = Frequencies({.temperature = 1, .seed = 11}, LogitsOf(p));
  for (int32_t id = 0; id < 4; ++id) {
    EXPECT_NEAR(share.at(id), p[static_cast<size_t>(id)], Tolerance(p[static_cast<size_t>(id)]));
  }
}

TEST(SamplerTest, TemperatureRaisesProbabilitiesToItsInverse) {
  // 0.8 and 0.2 at temperature 2 are as sqrt(0.8) to sqrt(0.2), which is 2 to 1.
  const auto warm = Frequencies({.temperature = 2, .seed = 3}, LogitsOf({0.8, 0.2}));
  EXPECT_NEAR(warm.at(0), 2.0 / 3, Tolerance(2.0 / 3));
  const auto cold = Frequencies({.temperature = 0.5, .seed = 3}, LogitsOf({0.8, 0.2}));
  EXPECT_NEAR(cold.at(0), 16.0 / 17, Tolerance(16.0 / 17));
  const auto frozen = Frequencies({.temperature = 1e-4f, .seed = 3}, LogitsOf({0.3, 0.4, 0.3}));
  EXPECT_EQ(frozen.size(), 1u);
  EXPECT_EQ(frozen.begin()->first, 1);
}

TEST(SamplerTest, TopKKeepsTheBestAndTheLowerIdOfEqualOnes) {
  const auto two =
      Frequencies({.temperature = 1, .top_k = 2, .seed = 5}, LogitsOf({0.1, 0.3, 0.6}));
  EXPECT_FALSE(two.contains(0));
  EXPECT_NEAR(two.at(2), 2.0 / 3, Tolerance(2.0 / 3));
  const auto tie = Frequencies({.temperature = 1, .top_k = 1, .seed = 5}, {1, 2, 2, 2});
  EXPECT_EQ(tie.size(), 1u);
  EXPECT_EQ(tie.begin()->first, 1);
}

TEST(SamplerTest, TopPKeepsTheFewestThatReachIt) {
  const std::vector<float> logits = LogitsOf({0.05, 0.5, 0.15, 0.3});
  EXPECT_EQ(Frequencies({.temperature = 1, .top_p = 0.45f, .seed = 5}, logits).size(), 1u);
  EXPECT_EQ(Frequencies({.temperature = 1, .top_p = 0.55f, .seed = 5}, logits).size(), 2u);
  const auto three = Frequencies({.temperature = 1, .top_p = 0.9f, .seed = 5}, logits);
  EXPECT_FALSE(three.contains(0));
  EXPECT_NEAR(three.at(1), 0.5 / 0.95, Tolerance(0.5 / 0.95));
}

TEST(SamplerTest, TopPWorksOnWhatTopKLeft) {
  // Of {0.5, 0.3}, renormalised {0.625, 0.375}, 0.6 is reached by the first alone.
  const auto share = Frequencies({.temperature = 1, .top_k = 2, .top_p = 0.6f, .seed = 5},
                                 LogitsOf({0.5, 0.3, 0.15, 0.05}));
  EXPECT_EQ(share.size(), 1u);
}

TEST(SamplerTest, TopPFindsALargeNucleus) {
  // 2,000 equal tokens and one that is less likely: half the mass is 1,000 tokens or so, the lowest
  // ids of them.
  std::vector<float> logits(2001, 1.0f);
  logits[0] = 0.5f;
  int32_t highest = 0;
  for (const auto& [id, share] :
       Frequencies({.temperature = 1, .top_p = 0.5f, .seed = 5}, logits)) {
    EXPECT_NE(id, 0);
    highest = std::max(highest, id);
  }
  EXPECT_GE(highest, 990);
  EXPECT_LE(highest, 1001);
}

TEST(SamplerTest, MinPKeepsTokensNearTheLikeliest) {
  const auto share =
      Frequencies({.temperature = 1, .min_p = 0.25f, .seed = 5}, LogitsOf({0.1, 0.6, 0.3}));
  EXPECT_FALSE(share.contains(0));
  EXPECT_NEAR(share.at(1), 2.0 / 3, Tolerance(2.0 / 3));
}

TEST(SamplerTest, TheSameSeedAndPositionDrawTheSame) {
  const SamplingParams params{.temperature = 1.5f, .seed = 42};
  const std::vector<float> logits(1000, 0.0f);
  std::vector<int32_t> first;
  std::vector<int32_t> other_seed;
  for (int64_t position = 100; position < 140; ++position) {
    SamplingContext context;
    context.position = position;
    first.push_back(*Sample(params, logits, context));
    EXPECT_EQ(first.back(), *Sample(params, logits, context));
    other_seed.push_back(*Sample({.temperature = 1.5f, .seed = 43}, logits, context));
  }
  EXPECT_NE(first, other_seed);
  EXPECT_GT(std::set<int32_t>(first.begin(), first.end()).size(), 30u);
}

TEST(SamplerTest, UniformNumbersAreUniform) {
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100'000;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double u = UniformAt(7, i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kCount));
}

TEST(SamplerTest, PenaltiesPushSeenTokensDown) {
  const std::vector<int32_t> prompt = {0};
  const std::vector<int32_t> generated = {1, 1, 1};
  const SamplingContext context{.prompt_ids = prompt, .generated_ids = generated};
  // Repetition: positive logits are divided, negative ones multiplied, once for each token.
  EXPECT_EQ(*Sample({.repetition_penalty = 2}, {4, 4, 2.5f}, context), 2);
  EXPECT_EQ(*Sample({.repetition_penalty = 2}, {-2, -2, -3}, context), 2);
  EXPECT_EQ(*Sample({.repetition_penalty = 2}, {4, 4, 1.5f}, context), 0);
  // Presence counts a generated token once, frequency each time; neither looks at the prompt.
  EXPECT_EQ(*Sample({.presence_penalty = 1}, {0, 2, 1.5f}, context), 2);
  EXPECT_EQ(*Sample({.presence_penalty = 1}, {0, 3, 1.5f}, context), 1);
  EXPECT_EQ(*Sample({.frequency_penalty = 1}, {0, 3, 1.5f}, context), 2);
  EXPECT_EQ(*Sample({.frequency_penalty = 1}, {3, 0, 1.5f}, context), 0);
}

TEST(SamplerTest, BiasIsAddedToItsTokens) {
  EXPECT_EQ(*Sample({.logit_bias = {{2, 5.0f}, {0, -5.0f}}}, {2, 1, 0}), 2);
}

TEST(SamplerTest, StopTokensWaitForTheirTime) {
  const std::vector<int32_t> model_stops = {0};
  const std::vector<int32_t> none;
  const std::vector<int32_t> two = {5, 5};
  SamplingContext early{.generated_ids = none, .model_stop_ids = model_stops};
  SamplingContext late{.generated_ids = two, .model_stop_ids = model_stops};
  const SamplingParams params{.min_tokens = 2, .stop_ids = {1}};
  EXPECT_EQ(*Sample(params, {3, 2, 1}, early), 2);
  EXPECT_EQ(*Sample(params, {3, 2, 1}, late), 0);
  EXPECT_EQ(*Sample({.ignore_eos = true, .stop_ids = {1}}, {3, 2, 1}, late), 1);
}

TEST(FinishTest, EndsAtStopTokensAndAtTheLimit) {
  const std::vector<int32_t> model_stops = {2};
  EXPECT_EQ(FinishAfter({}, model_stops, 2, 1, 10), Finish::kStop);
  EXPECT_EQ(FinishAfter({.ignore_eos = true}, model_stops, 2, 1, 10), Finish::kNone);
  EXPECT_EQ(FinishAfter({.stop_ids = {7}}, model_stops, 7, 1, 10), Finish::kStop);
  EXPECT_EQ(FinishAfter({}, model_stops, 7, 9, 10), Finish::kNone);
  EXPECT_EQ(FinishAfter({}, model_stops, 7, 10, 10), Finish::kLength);
}

TEST(CheckSamplingTest, NamesWhatIsWrong) {
  const auto error = [](const SamplingParams& params) {
    return std::string(CheckSampling(params, 100).message());
  };
  EXPECT_TRUE(CheckSampling({}, 100).ok());
  EXPECT_THAT(error({.temperature = kNan}), HasSubstr("temperature"));
  EXPECT_THAT(error({.temperature = -1}), HasSubstr("temperature"));
  EXPECT_THAT(error({.temperature = 1e9f}), HasSubstr("temperature"));
  EXPECT_THAT(error({.top_k = -1}), HasSubstr("top_k"));
  EXPECT_THAT(error({.top_p = 0}), HasSubstr("top_p"));
  EXPECT_THAT(error({.top_p = 1.5f}), HasSubstr("top_p"));
  EXPECT_THAT(error({.min_p = kNan}), HasSubstr("min_p"));
  EXPECT_THAT(error({.repetition_penalty = 0}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(error({.presence_penalty = kInfinity}), HasSubstr("presence_penalty"));
  EXPECT_THAT(error({.frequency_penalty = kNan}), HasSubstr("frequency_penalty"));
  EXPECT_THAT(error({.logit_bias = {{100, 1.0f}}}), HasSubstr("logit_bias"));
  EXPECT_THAT(error({.logit_bias = {{1, kNan}}}), HasSubstr("logit_bias"));
  EXPECT_THAT(error({.min_tokens = -1}), HasSubstr("min_tokens"));
  EXPECT_THAT(error({.stop_ids = {-1}}), HasSubstr("stop_ids"));
}

}  // namespace
}  // namespace anchorage::model
