#include "router/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace anchorage::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHi[] = R"("messages":[{"role":"user","content":"hi"}])";

ApiResult<CompletionRequest> Chat(const std::string& fields) {
  return ParseCompletionRequest(
      Endpoint::kChat, absl::StrFormat("{%s%s%s}", kHi, fields.empty() ? "" : ",", fields));
}
ApiResult<CompletionRequest> Completion(const std::string& fields) {
  return ParseCompletionRequest(Endpoint::kCompletions, absl::StrFormat("{%s}", fields));
}

TEST(RequestParserTest, FillsInDefaults) {
  const auto request = Chat("");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->sampling.temperature, 1);
  EXPECT_FALSE(request->max_tokens.has_value());
  EXPECT_FALSE(request->stream);
  EXPECT_TRUE(request->skip_special_tokens);
  const auto& chat = std::get<ChatPrompt>(request->prompt);
  EXPECT_EQ(chat.messages[0].role, "user");
  EXPECT_EQ(chat.messages[0].content, "hi");
}

TEST(RequestParserTest, ReadsEveryField) {
  const auto request = Chat(
      R"("model":"m","temperature":0,"top_p":0.5,"top_k":40,"min_p":0.1,"seed":-3,"stream":true,
         "stream_options":{"include_usage":true},"max_tokens":5,"max_completion_tokens":7.0,
         "stop":["a","","b"],"presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.1,
         "logit_bias":{"5":-100},"min_tokens":2,"ignore_eos":true,"stop_token_ids":[1,2],
         "skip_special_tokens":false,"user":"u","something_new":{"x":1})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->model, "m");
  EXPECT_EQ(request->sampling.temperature, 0);
  EXPECT_EQ(request->sampling.top_k, 40);
  EXPECT_EQ(*request->sampling.seed, -3);
  EXPECT_EQ(*request->max_tokens, 7);  // the newer name wins
  EXPECT_THAT(request->stop, ElementsAre("a", "b"));
  EXPECT_EQ(request->sampling.logit_bias.at(5), -100);
  EXPECT_THAT(request->sampling.stop_token_ids, ElementsAre(1, 2));
  EXPECT_TRUE(request->include_usage);
  EXPECT_FALSE(request->skip_special_tokens);
}

TEST(RequestParserTest, NullIsTheSameAsAbsent) {
  const auto request = Chat(
      R"("model":null,"temperature":null,"top_p":null,"n":null,"stop":null,"max_tokens":null,
         "stream":null,"stream_options":null,"logit_bias":null,"tools":null,"logprobs":null,
         "seed":null,"response_format":null,"tool_choice":null)");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_TRUE(request->stop.empty());
}

TEST(RequestParserTest, WhatAsksForNothingIsAccepted) {
  EXPECT_TRUE(Chat(R"("n":1,"tools":[],"logprobs":false,"top_logprobs":0,"stop":[],"echo":false,
                      "response_format":{"type":"text"},"tool_choice":"none","suffix":"")")
                  .ok());
}

TEST(RequestParserTest, ContentMayBeAListOfTextParts) {
  const auto request = ParseCompletionRequest(
      Endpoint::kChat, R"({"messages":[{"role":"developer","content":[{"type":"text","text":"a"},
                           {"type":"text","text":"b"}]}]})");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(std::get<ChatPrompt>(request->prompt).messages[0].content, "ab");
  EXPECT_EQ(std::get<ChatPrompt>(request->prompt).messages[0].role, "system");
}

TEST(RequestParserTest, NamesTheFieldThatIsWrong) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"("temperature":"0")", "temperature"},
      {R"("temperature":-1)", "temperature"},
      {R"("temperature":1e9)", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_p":1.5)", "top_p"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-1)", "max_tokens"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("max_tokens":"5")", "max_tokens"},
      {R"("max_completion_tokens":true)", "max_completion_tokens"},
      {R"("n":0)", "n"},
      {R"("n":-1)", "n"},
      {R"("n":2)", "n"},
      {R"("n":1000000000)", "n"},
      {R"("seed":9223372036854775808)", "seed"},
      {R"("seed":1.5)", "seed"},
      {R"("stream":"true")", "stream"},
      {R"("stream_options":{})", "stream_options"},
      {R"("stream":true,"stream_options":5)", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("stop":5)", "stop"},
      {R"("stop":[5])", "stop"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"-1":1})", "logit_bias"},
      {R"("logit_bias":{"1":101})", "logit_bias"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("stop_token_ids":["a"])", "stop_token_ids"},
      {R"("tools":[{"type":"function"}])", "tools"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("response_format":"json")", "response_format"},
      {R"("logprobs":true)", "logprobs"},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("modalities":["audio"])", "modalities"},
      {R"("guided_json":{"a":1})", "guided_json"},
      {R"("model":5)", "model"},
      {R"("ignore_eos":1)", "ignore_eos"},
  };
  for (const auto& [fields, param] : kCases) {
    const auto request = Chat(fields);
    ASSERT_FALSE(request.ok()) << fields;
    EXPECT_EQ(request.error().param, param) << fields;
    EXPECT_EQ(request.error().status, 400);
    EXPECT_EQ(request.error().type, "invalid_request_error");
  }
}

TEST(RequestParserTest, NamesTheMessageThatIsWrong) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({})", "messages"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":null})", "messages"},
      {R"({"messages":"hi"})", "messages"},
      {R"({"messages":[5]})", "messages[0]"},
      {R"({"messages":[{"content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"wizard","content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"user","content":"x"},{"role":"user"}]})", "messages[1].content"},
      {R"({"messages":[{"role":"user","content":null}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[5]}]})", "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
       "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
       "messages[0].content[0].text"},
      {R"({"messages":[{"role":"assistant","content":"x","tool_calls":[1]}]})",
       "messages[0].tool_calls"},
  };
  for (const auto& [body, param] : kCases) {
    const auto request = ParseCompletionRequest(Endpoint::kChat, body);
    ASSERT_FALSE(request.ok()) << body;
    EXPECT_EQ(request.error().param, param) << body;
  }
}

TEST(RequestParserTest, ReadsPromptsInEveryForm) {
  EXPECT_EQ(std::get<TextPrompt>(Completion(R"("prompt":"a")")->prompt).text, "a");
  EXPECT_EQ(std::get<TextPrompt>(Completion(R"("prompt":["a"])")->prompt).text, "a");
  EXPECT_THAT(std::get<IdsPrompt>(Completion(R"("prompt":[1,2])")->prompt).ids, ElementsAre(1, 2));
  EXPECT_THAT(std::get<IdsPrompt>(Completion(R"("prompt":[[3]])")->prompt).ids, ElementsAre(3));
  for (const char* bad : {R"("prompt":[])", R"("prompt":[[]])", R"("prompt":["a","b"])",
                          R"("prompt":[[1],[2]])", R"("prompt":[-1])", R"("prompt":[1,"a"])",
                          R"("prompt":5)", R"("prompt":null)", R"("x":1)", R"("prompt":[1.5])"}) {
    const auto request = Completion(bad);
    ASSERT_FALSE(request.ok()) << bad;
    EXPECT_EQ(request.error().param, "prompt") << bad;
  }
}

TEST(RequestParserTest, BoundsListsFromOutside) {
  std::string stops = R"("stop":["x")";
  for (int i = 0; i < 5000; ++i) stops += ",\"x\"";
  EXPECT_EQ(Chat(stops + "]").error().param, "stop");
  EXPECT_EQ(Chat(absl::StrFormat(R"("stop":"%s")", std::string(100'000, 'a'))).error().param,
            "stop");
}

TEST(RequestParserTest, SaysWhereTheJsonIsBroken) {
  const auto request = ParseCompletionRequest(Endpoint::kChat, "{\"messages\": [}");
  ASSERT_FALSE(request.ok());
  EXPECT_THAT(request.error().message, HasSubstr("at byte 15"));
  EXPECT_FALSE(ParseCompletionRequest(Endpoint::kChat, "[]").ok());
  EXPECT_FALSE(ParseCompletionRequest(Endpoint::kChat, "").ok());
}

TEST(RequestParserTest, TokenizeTakesBothShapes) {
  EXPECT_TRUE(ParseTokenizeRequest(R"({"prompt":"a"})").ok());
  EXPECT_TRUE(ParseTokenizeRequest(R"({"content":"a","add_special":false})").ok());
  EXPECT_TRUE(ParseTokenizeRequest(R"({"messages":[{"role":"user","content":"x"}]})").ok());
  EXPECT_FALSE(ParseTokenizeRequest(R"({})").ok());
  EXPECT_EQ(ParseDetokenizeRequest(R"({"tokens":[1,2]})")->ids.size(), 2u);
  EXPECT_FALSE(ParseDetokenizeRequest(R"({"tokens":"x"})").ok());
}

}  // namespace
}  // namespace anchorage::router
