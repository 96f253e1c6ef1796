#include "router/http_front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/http_fixture.h"

namespace anchorage::router {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class HttpFrontTest : public HttpFixture {};

TEST_F(HttpFrontTest, ListsModels) {
  Start();
  const std::string list = Exchange(Request("GET", "/v1/models"));
  EXPECT_THAT(list, StartsWith("HTTP/1.1 200"));
  const ParsedJson body = *ParseJson(BodyOf(list));
  EXPECT_EQ(body["data"][0]["id"], "tiny");
  EXPECT_EQ(body["data"][0]["max_model_len"], 8192);
  EXPECT_THAT(Exchange(Request("GET", "/v1/models/tiny")), StartsWith("HTTP/1.1 200"));
  const std::string missing = Exchange(Request("GET", "/v1/models/..%2Fx"));
  EXPECT_THAT(missing, StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(ErrorOf(missing)["code"], "model_not_found");
}

TEST_F(HttpFrontTest, AnswersProbes) {
  Start();
  EXPECT_THAT(Exchange(Request("GET", "/ready")), StartsWith("HTTP/1.1 200"));
  engine_.ready = false;
  for (const char* path : {"/ready", "/health"}) {
    const std::string answer = Exchange(Request("GET", path));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(answer, HasSubstr("Retry-After: "));
  }
  EXPECT_THAT(Exchange(Request("GET", "/live")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Exchange(Request("GET", "/version")), HasSubstr("\"version\""));
}

TEST_F(HttpFrontTest, TokenizesAndBack) {
  Start();
  const std::string answer = Exchange(Request("POST", "/tokenize", R"({"prompt":"hello"})"));
  const ParsedJson tokens = (*ParseJson(BodyOf(answer)))["tokens"];
  EXPECT_GT(tokens.size(), 0u);
  const std::string back =
      Exchange(Request("POST", "/detokenize", absl::StrFormat(R"({"tokens":%s})", tokens.dump())));
  EXPECT_EQ((*ParseJson(BodyOf(back)))["prompt"], "hello");
}

TEST_F(HttpFrontTest, AnswersAChat) {
  Start();
  const std::string answer = Exchange(Chat());
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/json\r\n"));
  const ParsedJson body = *ParseJson(BodyOf(answer));
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello wörld");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["usage"]["completion_tokens"], 2);
}

TEST_F(HttpFrontTest, StreamsAChat) {
  Start();
  const std::string answer =
      Exchange(Chat(R"(,"stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/event-stream; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("Cache-Control: no-cache\r\n"));
  EXPECT_THAT(answer, HasSubstr("X-Accel-Buffering: no\r\n"));
  const std::string stream = StreamOf(answer);
  EXPECT_THAT(stream, HasSubstr(R"("delta":{"role":"assistant","content":""})"));
  EXPECT_THAT(stream, HasSubstr("Hello"));
  EXPECT_THAT(stream, HasSubstr(R"("finish_reason":"stop")"));
  EXPECT_THAT(stream, HasSubstr(R"("choices":[],"usage":)"));
  EXPECT_TRUE(stream.ends_with("data: [DONE]\n\n"));
}

TEST_F(HttpFrontTest, StreamsToOldClientsWithoutChunks) {
  Start();
  std::string request = Chat(R"(,"stream":true)");
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  const std::string answer = Exchange(request);
  EXPECT_THAT(answer, Not(HasSubstr("chunked")));
  EXPECT_TRUE(answer.ends_with("data: [DONE]\n\n"));
}

TEST_F(HttpFrontTest, RefusalsHaveTheirStatusAndRetryAfter) {
  Start();
  engine_.mode = Mode::kRefuse;
  for (const char* fields : {"", R"(,"stream":true)"}) {
    const std::string answer = Exchange(Chat(fields));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 429"));
    EXPECT_THAT(answer, HasSubstr("Retry-After: "));
    EXPECT_EQ(ErrorOf(answer)["type"], "rate_limit_error");
  }
}

TEST_F(HttpFrontTest, AFailureBeforeTheFirstTokenHasItsStatus) {
  Start();
  engine_.mode = Mode::kFailAtOnce;
  for (const char* fields : {"", R"(,"stream":true)"}) {
    const std::string answer = Exchange(Chat(fields));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 502"));
    EXPECT_EQ(ErrorOf(answer)["stage"], "decode");
  }
}

TEST_F(HttpFrontTest, AFailureInAStreamIsAnErrorEventAndNeverACleanEnd) {
  Start();
  engine_.mode = Mode::kFailAfterText;
  const std::string stream = StreamOf(Exchange(Chat(R"(,"stream":true)")));
  EXPECT_THAT(stream, HasSubstr("Hello"));
  EXPECT_THAT(stream, HasSubstr(R"(data: {"error":{"message":"The decode node was lost.")"));
  EXPECT_THAT(stream, Not(HasSubstr("[DONE]")));
  EXPECT_THAT(stream, Not(HasSubstr(R"("finish_reason":"stop")")));
  const std::string metrics = registry_.Serialize();
  EXPECT_THAT(metrics, HasSubstr("anchorage_request_errors_total{reason=\"decode_failed\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("code=\"502\""));
}

TEST_F(HttpFrontTest, SilentStreamsGetComments) {
  options_.keep_alive_ms = 50;
  Start();
  engine_.mode = Mode::kHold;
  RawClient client(port_);
  client.Send(Chat(R"(,"stream":true)"));
  EXPECT_THAT(client.ReadUntil("keep-alive\n\n"), HasSubstr(": keep-alive\n\n"));
  OnLoop([this] { return engine_.Say("x"); });
  EXPECT_THAT(client.ReadUntil("\"x\""), HasSubstr(R"("role":"assistant")"));
  OnLoop([this] { engine_.FinishHeld(); });
  EXPECT_THAT(client.ReadAll(), HasSubstr("[DONE]"));
}

TEST_F(HttpFrontTest, EchoesRequestIdsThatAreFitForLogs) {
  Start();
  EXPECT_THAT(Exchange(Chat("", "X-Request-Id: my-id.7\r\n")),
              HasSubstr("x-request-id: my-id.7\r\n"));
  {
    MutexLock lock(engine_.mutex);
    EXPECT_EQ(engine_.log_id, "my-id.7");
  }
  for (const std::string& bad : {std::string(129, 'a'), std::string("a b"), std::string("\x80")}) {
    const std::string answer = Exchange(Chat("", "X-Request-Id: " + bad + "\r\n"));
    EXPECT_THAT(answer, HasSubstr("x-request-id: req-"));
  }
}

TEST_F(HttpFrontTest, LogsTheTraceIdOfATraceparentBesideTheRequestId) {
  Start();
  const std::string trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  EXPECT_THAT(Exchange(Chat("", "X-Request-Id: my-id\r\n" + trace + "\r\n")),
              HasSubstr("x-request-id: my-id\r\n"));
  MutexLock lock(engine_.mutex);
  EXPECT_EQ(engine_.log_id, "my-id trace=4bf92f3577b34da6a3ce929d0e0e4736");
}

TEST_F(HttpFrontTest, AnswersPreflightsOfTheOriginsThatAreAllowed) {
  options_.api_key = "secret";  // a preflight has no credentials
  options_.cors = *CorsPolicy::Create({"https://chat.example.org"});
  Start();
  const auto preflight = [&](const char* origin) {
    return Exchange(Request("OPTIONS", "/v1/chat/completions", "",
                            absl::StrFormat("Origin: %s\r\nAccess-Control-Request-Method: POST\r\n"
                                            "Access-Control-Request-Headers: authorization\r\n",
                                            origin)));
  };
  const std::string allowed = preflight("https://chat.example.org");
  EXPECT_THAT(allowed, StartsWith("HTTP/1.1 204"));
  EXPECT_THAT(allowed, HasSubstr("Access-Control-Allow-Origin: https://chat.example.org\r\n"));
  EXPECT_THAT(allowed, HasSubstr("Access-Control-Allow-Methods: POST"));
  EXPECT_THAT(allowed, HasSubstr("Access-Control-Allow-Headers: authorization\r\n"));
  const std::string refused = preflight("https://evil.example.org");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 204"));
  EXPECT_THAT(refused, Not(HasSubstr("Access-Control-")));
  EXPECT_THAT(Exchange(Request("OPTIONS", "/v2/what", "", "Origin: https://chat.example.org\r\n")),
              StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpFrontTest, AnswersErrorsAndStreamsCarryTheirOrigin) {
  options_.cors = *CorsPolicy::Create({"https://chat.example.org"});
  Start();
  const char* origin = "Origin: https://chat.example.org\r\n";
  const std::string field = "Access-Control-Allow-Origin: https://chat.example.org\r\n";
  EXPECT_THAT(Exchange(Chat("", origin)), HasSubstr(field));
  EXPECT_THAT(Exchange(Chat(R"(,"stream":true)", origin)), HasSubstr(field));
  EXPECT_THAT(Exchange(Chat(R"(,"n":2)", origin)), HasSubstr(field));
  EXPECT_THAT(Exchange(Request("GET", "/v1/models")), Not(HasSubstr("Access-Control-")));
}

TEST_F(HttpFrontTest, SaysNothingOfOriginsUnlessToldTo) {
  Start();
  EXPECT_THAT(Exchange(Chat("", "Origin: https://chat.example.org\r\n")),
              Not(HasSubstr("Access-Control-")));
}

TEST_F(HttpFrontTest, AnswersHeadOptionsAndWrongMethods) {
  Start();
  const std::string head = Exchange(Request("HEAD", "/v1/models"));
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(BodyOf(head), IsEmpty());
  const std::string options = Exchange(Request("OPTIONS", "/v1/chat/completions"));
  EXPECT_THAT(options, StartsWith("HTTP/1.1 204"));
  EXPECT_THAT(options, HasSubstr("Allow: POST"));
  for (const char* method : {"GET", "DELETE", "BREW", "TRACE"}) {
    const std::string answer = Exchange(Request(method, "/v1/chat/completions"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405")) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: POST"));
    EXPECT_EQ(ErrorOf(answer)["type"], "invalid_request_error");
  }
  const std::string unknown = Exchange(Request("GET", "/v2/what"));
  EXPECT_THAT(unknown, StartsWith("HTTP/1.1 404"));
  ErrorOf(unknown);
}

TEST_F(HttpFrontTest, AsksForTheKeyWhereOneIsSet) {
  options_.api_key = "secret";
  Start();
  for (const char* headers : {"", "Authorization: Bearer wrong!\r\n", "Authorization: secret\r\n",
                              "Authorization: Bearer \r\n"}) {
    const std::string answer = Exchange(Chat("", headers));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 401")) << headers;
    EXPECT_THAT(answer, HasSubstr("WWW-Authenticate: Bearer"));
    EXPECT_EQ(ErrorOf(answer)["code"], "invalid_api_key");
  }
  EXPECT_THAT(Exchange(Chat("", "Authorization: Bearer secret\r\n")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Exchange(Request("GET", "/ready")), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpFrontTest, SaysWhyItCannotListen) {
  options_.listen = "nonsense";
  EXPECT_FALSE(HttpFront::Start(loop_.io(), options_, &ServedTinyModel(), SpecLimits(), &engine_,
                                &Clock::Real(), &metrics_)
                   .ok());
}

}  // namespace
}  // namespace anchorage::router
