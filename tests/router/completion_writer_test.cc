#include "router/completion_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "router/routes.h"

namespace anchorage::router {
namespace {

constexpr std::array<int32_t, 2> kIds = {8, 9};

// The JSON of each event of a stream; "[DONE]" as a string.
std::vector<ParsedJson> Events(std::string_view stream) {
  std::vector<ParsedJson> events;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    EXPECT_NE(end, std::string_view::npos);
    EXPECT_TRUE(stream.starts_with("data: "));
    const std::string_view data = stream.substr(6, end - 6);
    events.push_back(data == "[DONE]" ? ParsedJson("[DONE]") : *ParseJson(data));
    stream.remove_prefix(end + 2);
  }
  return events;
}

TEST(CompletionWriterTest, ChatStreamHasTheOrderThatClientsExpect) {
  const CompletionWriter writer(Endpoint::kChat, "chatcmpl-1", 17, "m", {.include_usage = true});
  const auto events = Events(writer.Begin() + writer.Tokens(kIds, "hé") + writer.Tokens(kIds, "") +
                             writer.End(FinishReason::kLength, {3, 2}));
  ASSERT_EQ(events.size(), 5u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(events[i]["id"], "chatcmpl-1");
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["created"], 17);
    EXPECT_EQ(events[i]["model"], "m");
  }
  EXPECT_EQ(events[0]["choices"][0]["delta"], (ParsedJson{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(events[0]["choices"][0]["finish_reason"], nullptr);
  EXPECT_EQ(events[1]["choices"][0]["delta"], (ParsedJson{{"content", "hé"}}));
  EXPECT_EQ(events[2]["choices"][0]["delta"], ParsedJson::object());
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events[3]["choices"], ParsedJson::array());
  EXPECT_EQ(events[3]["usage"],
            (ParsedJson{{"prompt_tokens", 3}, {"completion_tokens", 2}, {"total_tokens", 5}}));
  EXPECT_EQ(events[4], "[DONE]");
}

TEST(CompletionWriterTest, TextStreamHasNoRoleAndNoUsageUnlessAsked) {
  const CompletionWriter writer(Endpoint::kCompletions, "cmpl-1", 17, "m", {});
  EXPECT_EQ(writer.Begin(), "");
  const auto events = Events(writer.Tokens(kIds, "a") + writer.End(FinishReason::kStop, {1, 1}));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["object"], "text_completion");
  EXPECT_EQ(events[0]["choices"][0]["text"], "a");
  EXPECT_EQ(events[1]["choices"][0]["text"], "");
  EXPECT_EQ(events[1]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[2], "[DONE]");
}

TEST(CompletionWriterTest, ChatNamesThePromptsTokensOnceBesideTheChoices) {
  const CompletionWriter writer(Endpoint::kChat, "id", 1, "m", {.prompt_ids = {{1, 2, 3}}});
  const auto events =
      Events(writer.Begin() + writer.Tokens(kIds, "") + writer.Tokens(kIds, "x") +
             writer.Tokens({}, "y") + writer.Tokens({}, "") + writer.End(FinishReason::kStop, {}));
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0]["prompt_token_ids"], (ParsedJson{1, 2, 3}));
  EXPECT_EQ(events[1]["choices"][0]["delta"]["content"], "");
  std::vector<int32_t> ids;
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(events[i].contains("prompt_token_ids"), i == 0);
    for (const auto& id : events[i]["choices"][0]["token_ids"]) ids.push_back(id);
  }
  EXPECT_EQ(ids, (std::vector<int32_t>{8, 9, 8, 9}));
  const ParsedJson whole = *ParseJson(writer.Whole(kIds, "hi", FinishReason::kStop, {}));
  EXPECT_EQ(whole["prompt_token_ids"], (ParsedJson{1, 2, 3}));
  EXPECT_EQ(whole["choices"][0]["token_ids"], (ParsedJson{8, 9}));
}

TEST(CompletionWriterTest, TextCompletionsNameThePromptsTokensOnceInTheChoice) {
  const CompletionWriter writer(Endpoint::kCompletions, "id", 1, "m", {.prompt_ids = {{1, 2, 3}}});
  const auto events =
      Events(writer.Begin() + writer.Tokens(kIds, "x") + writer.End(FinishReason::kStop, {}));
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["choices"][0]["prompt_token_ids"], (ParsedJson{1, 2, 3}));
  EXPECT_EQ(events[0]["choices"][0]["text"], "");
  EXPECT_EQ(events[0]["choices"][0]["token_ids"], ParsedJson::array());
  EXPECT_EQ(events[1]["choices"][0]["token_ids"], (ParsedJson{8, 9}));
  EXPECT_FALSE(events[1]["choices"][0].contains("prompt_token_ids"));
  EXPECT_EQ(events[2]["choices"][0]["token_ids"], ParsedJson::array());
  const ParsedJson whole = *ParseJson(writer.Whole(kIds, "hi", FinishReason::kStop, {}));
  EXPECT_EQ(whole["choices"][0]["prompt_token_ids"], (ParsedJson{1, 2, 3}));
  EXPECT_EQ(whole["choices"][0]["token_ids"], (ParsedJson{8, 9}));
}

TEST(CompletionWriterTest, NamesNoTokensUnlessAsked) {
  for (const Endpoint endpoint : {Endpoint::kChat, Endpoint::kCompletions}) {
    const CompletionWriter writer(endpoint, "id", 1, "m", {});
    const std::string all = writer.Begin() + writer.Tokens(kIds, "x") +
                            writer.End(FinishReason::kStop, {}) +
                            writer.Whole(kIds, "x", FinishReason::kStop, {});
    EXPECT_THAT(all, ::testing::Not(::testing::HasSubstr("token_ids")));
  }
}

TEST(CompletionWriterTest, WholeAnswerHasUsageAndFinishReason) {
  const CompletionWriter writer(Endpoint::kChat, "id", 1, "m", {});
  const ParsedJson body = *ParseJson(writer.Whole(kIds, "hi", FinishReason::kStop, {4, 1}));
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "hi");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["total_tokens"], 5);
}

TEST(CompletionWriterTest, AnErrorEventIsOneEventWithoutDone) {
  const auto events = Events(CompletionWriter::Error(StageFailed("decode", "lost")));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["error"]["message"], "lost");
  EXPECT_EQ(events[0]["error"]["stage"], "decode");
}

TEST(ApiErrorTest, BodyHasAllFourFieldsOnEveryError) {
  for (const ApiError& error :
       {BadRequest("n", "x"), ContextLengthExceeded("messages", 9, 8), NeverFits(2, 1),
        InvalidApiKey(), ModelNotFound("m"), RouteNotFound("GET", "/x"), MethodNotAllowed("A", "/"),
        BodyTooLarge(1), UnsupportedMediaType("x"), QueueFull(), QueueTimeout(), NoWorkers("x"),
        Draining(), RequestTimeout("decode"), StageFailed("prefill", "x")}) {
    const ParsedJson body = *ParseJson(ErrorBody(error));
    for (const char* key : {"message", "type", "param", "code"}) {
      EXPECT_TRUE(body["error"].contains(key)) << error.message;
    }
    EXPECT_GE(error.status, 400);
    EXPECT_EQ(error.status == 429 || error.status == 503, error.retry_after_seconds > 0);
  }
}

TEST(ApiErrorTest, ContextLengthHasTheWordsAndNumbersThatClientsMatch) {
  const ParsedJson body = *ParseJson(ErrorBody(ContextLengthExceeded("messages", 9000, 8192)));
  EXPECT_THAT(body["error"]["message"].get<std::string>(),
              ::testing::HasSubstr("This model's maximum context length is 8192 tokens"));
  EXPECT_EQ(body["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(body["error"]["n_prompt_tokens"], 9000);
  EXPECT_EQ(body["error"]["n_ctx"], 8192);
}

TEST(ApiErrorTest, EchoesOnlyAnExcerptOfWhatTheClientSent) {
  EXPECT_LT(ErrorBody(ModelNotFound(std::string(1 << 20, 'x'))).size(), 400u);
}

TEST(RoutesTest, MatchesPathsQueriesAndAbsoluteUrls) {
  EXPECT_EQ(MatchRoute("/v1/chat/completions").route, Route::kChat);
  EXPECT_EQ(MatchRoute("/v1/completions?x=1").route, Route::kCompletions);
  EXPECT_EQ(MatchRoute("http://host:1/v1/models").route, Route::kModels);
  EXPECT_EQ(MatchRoute("/v1/models/").route, Route::kModels);
  EXPECT_EQ(MatchRoute("/v1/models/a%2Fb%20c").argument, "a/b c");
  EXPECT_EQ(MatchRoute("/v1/models/../x").argument, "../x");
  for (const char* unknown : {"", "/", "*", "/v1", "/v1/chat", "//v1/models", "http://x", "x"}) {
    EXPECT_EQ(MatchRoute(unknown).route, Route::kUnknown) << unknown;
  }
}

TEST(RoutesTest, KnowsWhichMethodsEachPathTakes) {
  EXPECT_TRUE(MatchRoute("/v1/models").Allows("HEAD"));
  EXPECT_FALSE(MatchRoute("/v1/models").Allows("POST"));
  EXPECT_TRUE(MatchRoute("/v1/completions").Allows("POST"));
  EXPECT_FALSE(MatchRoute("/v1/completions").Allows("POS"));
  EXPECT_FALSE(MatchRoute("/v1/completions").Allows("GET"));
}

}  // namespace
}  // namespace anchorage::router
