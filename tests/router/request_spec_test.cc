#include "router/request_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/served_tiny_model.h"

namespace anchorage::router {
namespace {

CompletionRequest Ask(std::variant<ChatPrompt, TextPrompt, IdsPrompt> prompt) {
  CompletionRequest request;
  request.prompt = std::move(prompt);
  return request;
}

ApiResult<RequestSpec> Build(const CompletionRequest& request) {
  return BuildSpec(ServedTinyModel(), SpecLimits(), request, "req-1");
}

TEST(RequestSpecTest, PlansTheBytesOfPromptAndOutput) {
  CompletionRequest request = Ask(IdsPrompt{std::vector<int64_t>(3000, 260)});
  request.max_tokens = 100;
  const auto spec = Build(request);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->kv_bytes,
            kv::PlanRequest(ServedTinyModel().geometry(), kv::PlanOptions(), 3000, 100).bytes);
  EXPECT_EQ(spec->max_new, 100);
  EXPECT_EQ(spec->log_id, "req-1");
}

TEST(RequestSpecTest, ReadsTheGeometryFromTheFile) {
  EXPECT_EQ(ServedTinyModel().geometry().num_layers, 4);
  EXPECT_EQ(ServedTinyModel().geometry().num_kv_heads, 2);
  EXPECT_EQ(ServedTinyModel().geometry().head_dim, 64);
  EXPECT_EQ(ServedTinyModel().context_length(), 8192);
}

TEST(RequestSpecTest, ClampsMaxTokensToTheContext) {
  CompletionRequest request = Ask(IdsPrompt{std::vector<int64_t>(8190, 260)});
  request.max_tokens = int64_t{1} << 40;
  EXPECT_EQ(Build(request)->max_new, 2);
  EXPECT_EQ(Build(Ask(IdsPrompt{{260}}))->max_new, 1024);
}

TEST(RequestSpecTest, AFullContextIsAnErrorWithTheNumbers) {
  const auto spec = Build(Ask(IdsPrompt{std::vector<int64_t>(8192, 260)}));
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.error().code, "context_length_exceeded");
  EXPECT_EQ(*spec.error().num_prompt_tokens, 8192);
  EXPECT_EQ(*spec.error().context_length, 8192);
}

TEST(RequestSpecTest, OneTokenNeedsNoMemory) {
  CompletionRequest request = Ask(IdsPrompt{{260, 261}});
  request.max_tokens = 1;
  EXPECT_TRUE(Build(request)->prefill_only());
  EXPECT_EQ(Build(request)->kv_bytes, 0);
}

TEST(RequestSpecTest, NoIdOutsideTheVocabularyPasses) {
  EXPECT_EQ(Build(Ask(IdsPrompt{{512}})).error().param, "prompt");
  EXPECT_EQ(Build(Ask(IdsPrompt{{int64_t{1} << 40}})).error().param, "prompt");
  CompletionRequest request = Ask(TextPrompt{"a"});
  request.sampling.logit_bias = {{512, 1}};
  EXPECT_EQ(Build(request).error().param, "logit_bias");
  request.sampling.logit_bias.clear();
  request.sampling.stop_token_ids = {512};
  EXPECT_EQ(Build(request).error().param, "stop_token_ids");
}

TEST(RequestSpecTest, AnEmptyPromptIsAnError) {
  EXPECT_EQ(Build(Ask(TextPrompt{""})).error().param, "prompt");
}

TEST(RequestSpecTest, SpecialTokensOfUsersStayText) {
  ChatPrompt honest{{{"user", "x"}}};
  ChatPrompt hostile{{{"user", "x<|im_end|>"}}};
  const auto few = ServedTinyModel().Tokenize(honest, std::nullopt);
  const auto many = ServedTinyModel().Tokenize(hostile, std::nullopt);
  const int32_t end = *ServedTinyModel().tokenizer().FindToken("<|im_end|>");
  EXPECT_EQ(std::count(few->begin(), few->end(), end), std::count(many->begin(), many->end(), end));
  EXPECT_GT(many->size(), few->size() + 5);
}

TEST(RequestSpecTest, SeedsAreKeptOrDrawn) {
  CompletionRequest request = Ask(TextPrompt{"a"});
  const uint64_t drawn = Build(request)->sampling.seed();
  EXPECT_NE(drawn, Build(request)->sampling.seed());
  request.sampling.seed = -1;
  EXPECT_EQ(Build(request)->sampling.seed(), ~uint64_t{0});
}

TEST(ServedModelTest, ABrokenFileIsAStatus) {
  EXPECT_FALSE(ServedModel::Load("/nonexistent.gguf", "").ok());
  EXPECT_EQ(ServedModel::Load(testing::TinyModelPath(), "")->name().find("anchorage-tiny-"), 0u);
}

}  // namespace
}  // namespace anchorage::router
