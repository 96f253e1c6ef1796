#include "router/http_front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "common/mutex.h"
#include "common/status.h"
#include "observe/host_port.h"
#include "observe/logging.h"
#include "router/json.h"
#include "tests/router/raw_client.h"
#include "tests/router/served_tiny_model.h"
#include "transport/event_loop.h"

namespace anchorage::router {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::array<int32_t, 1> kOneId = {300};

// An engine that does what the test says. Lives on the loop's thread but for the atomics.
class ScriptedEngine : public Engine {
 public:
  enum class Mode { kAnswer, kHold, kRefuse, kFailAtOnce, kFailAfterText };

  explicit ScriptedEngine(transport::EventLoop* loop) : loop_(*loop) {}

  ApiResult<uint64_t> Submit(RequestSpec spec, std::shared_ptr<ResponseSink> sink) override {
    if (mode == Mode::kRefuse) return QueueFull();
    ++submitted;
    const int64_t num_prompt = static_cast<int64_t>(spec.prompt_ids.size());
    {
      MutexLock lock(mutex);
      log_id = spec.log_id;
    }
    held_ = sink;
    if (mode != Mode::kHold) {
      loop_.Post([this, sink, num_prompt, mode = mode.load()] { Answer(*sink, num_prompt, mode); });
    }
    return uint64_t{17};
  }
  const char* Cancel(uint64_t) override {
    if (held_ == nullptr) return "";
    ++cancelled;
    Outcome outcome;
    outcome.kind = Outcome::Kind::kCancelled;
    std::exchange(held_, nullptr)->OnEnd(outcome);
    return "decode";
  }
  absl::Status Ready() const override {
    return ready ? absl::OkStatus() : Unavailable("no decode node is ready");
  }

  // On the loop's thread.
  bool Say(std::string_view text) {
    if (held_ == nullptr) return false;
    held_->OnTokens(kOneId, text);
    return true;
  }
  void FinishHeld() {
    if (held_ != nullptr) std::exchange(held_, nullptr)->OnEnd(Outcome());
  }

  std::atomic<Mode> mode{Mode::kAnswer};
  std::atomic<bool> ready{true};
  std::atomic<int> submitted{0};
  std::atomic<int> cancelled{0};
  Mutex mutex;
  std::string log_id GUARDED_BY(mutex);

 private:
  void Answer(ResponseSink& sink, int64_t num_prompt, Mode mode) {
    Outcome outcome;
    outcome.usage = {num_prompt, 2};
    if (mode != Mode::kFailAtOnce) {
      sink.OnTokens(kOneId, "Hello");
      sink.OnTokens(kOneId, " wörld");
    }
    if (mode != Mode::kAnswer) {
      outcome.kind = Outcome::Kind::kFailed;
      outcome.error = StageFailed("decode", "The decode node was lost.");
    }
    held_ = nullptr;
    sink.OnEnd(outcome);
  }

  transport::EventLoop& loop_;
  std::shared_ptr<ResponseSink> held_;
};

using Mode = ScriptedEngine::Mode;

class HttpFrontTest : public ::testing::Test {
 protected:
  HttpFrontTest() {
    observe::StartLogging("test", observe::LogLevel::kOff);
    options_.listen = "127.0.0.1:0";
    options_.max_body_bytes = 256 << 10;
    options_.header_timeout_ms = 300;
    options_.body_timeout_ms = 300;
    options_.idle_timeout_ms = 2'000;
    options_.write_timeout_ms = 300;
  }
  ~HttpFrontTest() override {
    if (front_ == nullptr) return;
    OnLoop([this] {
      front_->Stop();
      return 0;
    });
    loop_.Post([this] { loop_.Stop(); });
    thread_.join();
    EXPECT_EQ(front_->connections(), 0);
  }

  void Start() {
    auto front = HttpFront::Start(loop_.io(), options_, &ServedTinyModel(), SpecLimits(), &engine_,
                                  &Clock::Real(), &metrics_);
    ASSERT_TRUE(front.ok()) << front.status();
    front_ = *std::move(front);
    port_ = observe::ParseHostPort(front_->address())->port;
    thread_ = std::thread([this] { loop_.Run(); });
  }
  template <typename Function>
  auto OnLoop(Function function) -> decltype(function()) {
    std::promise<decltype(function())> done;
    loop_.Post([&] { done.set_value(function()); });
    return done.get_future().get();
  }
  // Waits for something that another thread is about to do.
  template <typename Condition>
  static bool Eventually(Condition condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  std::string Exchange(std::string_view request) {
    RawClient client(port_);
    client.Send(request);
    return client.ReadAll();
  }
  static std::string Request(std::string_view method, std::string_view target,
                             std::string_view body = "", std::string_view headers = "",
                             bool close = true) {
    return absl::StrFormat("%s %s HTTP/1.1\r\nHost: x\r\n%s%sContent-Length: %d\r\n\r\n%s", method,
                           target, headers, close ? "Connection: close\r\n" : "", body.size(),
                           body);
  }
  static std::string Chat(std::string_view fields = "", std::string_view headers = "",
                          bool close = true) {
    return Request("POST", "/v1/chat/completions",
                   absl::StrFormat(R"({"messages":[{"role":"user","content":"hi"}]%s})", fields),
                   headers, close);
  }
  static std::string BodyOf(const std::string& response) {
    const size_t end = response.find("\r\n\r\n");
    return end == std::string::npos ? "" : response.substr(end + 4);
  }
  // The error of a response whose body must be a whole and well-formed one.
  static ParsedJson ErrorOf(const std::string& response) {
    const auto body = ParseJson(BodyOf(response));
    EXPECT_TRUE(body.ok()) << response;
    if (!body.ok() || !body->contains("error")) return ParsedJson::object();
    for (const char* key : {"message", "type", "param", "code"}) {
      EXPECT_TRUE((*body)["error"].contains(key)) << response;
    }
    return (*body)["error"];
  }
  // Undoes the chunked encoding, which must be complete.
  static std::string Dechunk(std::string_view body) {
    std::string data;
    while (true) {
      const size_t line = body.find("\r\n");
      if (line == std::string_view::npos) {
        ADD_FAILURE() << "cut off";
        return data;
      }
      const size_t size = std::stoul(std::string(body.substr(0, line)), nullptr, 16);
      if (size == 0) return data;
      data += body.substr(line + 2, size);
      body.remove_prefix(line + 2 + size + 2);
    }
  }
  static std::string StreamOf(const std::string& response) { return Dechunk(BodyOf(response)); }

  HttpOptions options_;
  transport::EventLoop loop_;
  ScriptedEngine engine_{&loop_};
  observe::MetricsRegistry registry_;
  RouterMetrics metrics_{&registry_, "tiny"};
  std::unique_ptr<HttpFront> front_;
  std::thread thread_;
  uint16_t port_ = 0;
};

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

TEST_F(HttpFrontTest, KeepsConnectionsAndAnswersPipelinedRequestsInOrder) {
  Start();
  RawClient client(port_);
  client.Send(Chat(R"(,"stream":true)", "", /*close=*/false) + Chat("", "", false) +
              Request("GET", "/v1/models"));
  const std::string all = client.ReadAll();
  const size_t stream = all.find("data: [DONE]");
  const size_t whole = all.find("chat.completion\"");
  const size_t models = all.find("\"object\":\"list\"");
  ASSERT_NE(models, std::string::npos) << all;
  EXPECT_LT(stream, whole);
  EXPECT_LT(whole, models);
  EXPECT_EQ(engine_.submitted, 2);
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
  OnLoop([this] {
    engine_.FinishHeld();
    return 0;
  });
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

TEST_F(HttpFrontTest, ContinuesWhereTheClientWaitsForIt) {
  Start();
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}]})";
  RawClient client(port_);
  client.Send(
      absl::StrFormat("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: "
                      "100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
                      body.size()));
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send(body);
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Exchange("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: "
                       "100-continue\r\nContent-Length: 1000000000\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Exchange(Chat("", "Expect: a-miracle\r\n")), StartsWith("HTTP/1.1 417"));
}

// What must be answered, with the status, and must not disturb the next client.
TEST_F(HttpFrontTest, SurvivesBadInput) {
  Start();
  const std::string post = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n";
  const std::string json = R"({"messages":[{"role":"user","content":"hi"}]})";
  const auto body = [&](const std::string& text) {
    return Request("POST", "/v1/chat/completions", text);
  };
  std::string many_headers = post;
  for (int i = 0; i < 10'000; ++i) many_headers += absl::StrFormat("X-%d: y\r\n", i);
  struct Case {
    const char* name;
    std::string bytes;
    int status;  // 0: closed without an answer
  };
  const Case kCases[] = {
      {"not json", body("{"), 400},
      {"empty body", body(""), 400},
      {"invalid utf-8", body("{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}"), 400},
      {"lone surrogate", body(R"({"messages":[{"role":"user","content":"\ud800"}]})"), 400},
      {"deep json", body(std::string(100'000, '[')), 400},
      {"duplicate key", body(R"({"messages":[],"messages":[]})"), 400},
      {"not a number", body(R"({"messages":[],"temperature":NaN})"), 400},
      {"byte order mark", body("\xef\xbb\xbf" + json), 200},
      {"empty model", Chat(R"(,"model":"")"), 200},
      {"huge number", body(R"({"messages":[],"seed":1e400})"), 400},
      {"unknown model", Chat(R"(,"model":"../x")"), 404},
      {"megabyte of model", Chat(absl::StrFormat(R"(,"model":"%s")", std::string(200'000, 'm'))),
       404},
      {"stream as string", Chat(R"(,"stream":"true")"), 400},
      {"gzip", Chat("", "Content-Encoding: gzip\r\n"), 415},
      {"form", Chat("", "Content-Type: application/x-www-form-urlencoded\r\n"), 415},
      {"negative length", post + "Content-Length: -5\r\n\r\n", 400},
      {"length overflow", post + "Content-Length: 99999999999999999999999\r\n\r\n", 400},
      {"two lengths", post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400},
      {"length and chunks",
       post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"bad chunk", post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc\r\n", 400},
      {"chunk overflow", post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400},
      {"too large", post + "Content-Length: 300000\r\n\r\n", 413},
      {"too large in chunks",
       post + "Transfer-Encoding: chunked\r\n\r\n80000\r\n" + std::string(0x80000, 'a') + "\r\n",
       413},
      {"line feeds only", "GET /v1/models HTTP/1.1\nHost: x\n\n", 400},
      {"nul in header", absl::StrFormat("GET /v1/models HTTP/1.1\r\nHost: a%cb\r\n\r\n", 0), 400},
      {"bad version", "GET /v1/models HTTP/9.9\r\n\r\n", 400},
      {"no version", "GET /v1/models\r\n\r\n", 400},
      {"garbage", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n\r\n",
       400},
      {"long header", post + "X: " + std::string(1 << 20, 'a') + "\r\n\r\n", 431},
      {"many headers", many_headers + "\r\n", 431},
      {"long target", "GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\n\r\n", 431},
      {"absolute url", Request("GET", "http://else.where/v1/models"), 200},
      {"asterisk", Request("GET", "*"), 404},
      {"chunked body",
       post + absl::StrFormat("Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n"
                              "0\r\n\r\n",
                              json.size(), json),
       200},
  };
  for (const Case& bad : kCases) {
    SCOPED_TRACE(bad.name);
    const std::string answer = Exchange(bad.bytes);
    EXPECT_THAT(answer, StartsWith(absl::StrFormat("HTTP/1.1 %d ", bad.status)));
    if (bad.status >= 400) ErrorOf(answer);
  }
  EXPECT_THAT(Exchange(Chat()), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpFrontTest, CutsOffWhoSendsTooSlowly) {
  Start();
  RawClient header(port_);
  header.Send("POST /v1/chat/completions HTTP/1.1\r\nX: ");
  RawClient body(port_);
  body.Send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_THAT(header.ReadAll(), IsEmpty());
  EXPECT_THAT(body.ReadAll(), IsEmpty());
  EXPECT_EQ(engine_.submitted, 0);
}

TEST_F(HttpFrontTest, CutsOffWhoSendsAByteAtATime) {
  options_.idle_timeout_ms = 120'000;  // does not help
  Start();
  for (const std::string& begin :
       {std::string("POST /v1/chat/completions HTTP/1.1\r\nX: "),
        std::string("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 1000\r\n\r\n")}) {
    RawClient client(port_);
    client.Send(begin);
    EXPECT_TRUE(Eventually([&] { return !client.Send("x"); }));
  }
  EXPECT_EQ(engine_.submitted, 0);
}

TEST_F(HttpFrontTest, AClientThatLeavesCancelsItsRequest) {
  Start();
  engine_.mode = Mode::kHold;
  int expected = 0;
  for (const char* fields : {"", R"(,"stream":true)"}) {
    for (const bool half_close : {false, true}) {
      RawClient client(port_);
      client.Send(Chat(fields));
      ASSERT_TRUE(Eventually([&] { return engine_.submitted == expected + 1; }));
      half_close ? client.ShutdownSend() : client.Close();
      ++expected;
      EXPECT_TRUE(Eventually([&] { return engine_.cancelled == expected; }));
    }
  }
  {
    RawClient client(port_);
    client.Send(Chat(R"(,"stream":true)"));
    ASSERT_TRUE(Eventually([&] { return engine_.submitted == expected + 1; }));
    OnLoop([this] { return engine_.Say("some text"); });
    EXPECT_THAT(client.ReadUntil("some text"), HasSubstr("some text"));
    client.Close();
    EXPECT_TRUE(Eventually([&] { return engine_.cancelled == expected + 1; }));
  }
  EXPECT_TRUE(Eventually([&] { return OnLoop([this] { return front_->connections(); }) == 0; }));
  EXPECT_THAT(registry_.Serialize(),
              HasSubstr("anchorage_client_disconnects_total{stage=\"decode\"} 5"));
  EXPECT_THAT(registry_.Serialize(), HasSubstr("code=\"499\""));
}

TEST_F(HttpFrontTest, AClientThatNeverReadsIsCancelled) {
  Start();
  engine_.mode = Mode::kHold;
  RawClient client(port_, /*receive_buffer_bytes=*/4096);
  client.Send(Chat(R"(,"stream":true)"));
  ASSERT_TRUE(Eventually([&] { return engine_.submitted == 1; }));
  const std::string text(10'000, 'x');
  EXPECT_TRUE(Eventually([&] {
    OnLoop([&] { return engine_.Say(text); });
    return engine_.cancelled == 1;
  }));
}

TEST_F(HttpFrontTest, SurvivesMoreConnectionsThanItTakes) {
  options_.max_connections = 8;
  Start();
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 80; ++i) clients.push_back(std::make_unique<RawClient>(port_));
    for (auto& client : clients) client->Send(Chat());
    int answered = 0;
    for (auto& client : clients) answered += client->ReadAll().starts_with("HTTP/1.1 200");
    EXPECT_GE(answered, 1);
  }
  EXPECT_TRUE(Eventually([&] { return OnLoop([this] { return front_->connections(); }) == 0; }));
  EXPECT_THAT(Exchange(Chat()), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpFrontTest, DrainingClosesConnectionsAfterTheirAnswer) {
  Start();
  OnLoop([this] {
    front_->BeginDrain();
    return 0;
  });
  EXPECT_THAT(Exchange(Chat("", "", /*close=*/false)), HasSubstr("Connection: close"));
}

TEST_F(HttpFrontTest, StopCutsOffWhatRuns) {
  Start();
  engine_.mode = Mode::kHold;
  RawClient client(port_);
  client.Send(Chat(R"(,"stream":true)"));
  ASSERT_TRUE(Eventually([&] { return engine_.submitted == 1; }));
  OnLoop([this] {
    front_->Stop();
    return 0;
  });
  EXPECT_THAT(client.ReadAll(), Not(HasSubstr("[DONE]")));
  EXPECT_TRUE(Eventually([&] { return engine_.cancelled == 1; }));
  EXPECT_FALSE(RawClient(port_).connected());
}

TEST_F(HttpFrontTest, SaysWhyItCannotListen) {
  options_.listen = "nonsense";
  EXPECT_FALSE(HttpFront::Start(loop_.io(), options_, &ServedTinyModel(), SpecLimits(), &engine_,
                                &Clock::Real(), &metrics_)
                   .ok());
}

}  // namespace
}  // namespace anchorage::router
