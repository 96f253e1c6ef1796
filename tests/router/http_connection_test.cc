// What connections do to the HTTP front: bad bytes, slow peers, peers that leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "tests/router/http_fixture.h"

namespace anchorage::router {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class HttpConnectionTest : public HttpFixture {
 protected:
  // The engine is done with the request before anything of the text is written.
  void FinishAStreamThatNobodyReads(const std::string& text) {
    engine_.mode = Mode::kHold;
    client_.emplace(port_, /*receive_buffer_bytes=*/4096);
    client_->Send(Chat(R"(,"stream":true)"));
    ASSERT_TRUE(Eventually([&] { return engine_.submitted == 1; }));
    OnLoop([&] {
      engine_.Say(text);
      engine_.FinishHeld();
    });
  }
  void ExpectOneDisconnect() {
    EXPECT_TRUE(Eventually([this] { return OnLoop([this] { return front_->answering(); }) == 0; }));
    const std::string exported = registry_.Serialize();
    EXPECT_THAT(exported, HasSubstr("anchorage_requests_total{code=\"499\""));
    EXPECT_THAT(exported, Not(HasSubstr("code=\"200\"")));
    EXPECT_THAT(exported, HasSubstr("anchorage_client_disconnects_total{stage=\"response\"} 1"));
  }

  std::optional<RawClient> client_;
};

TEST_F(HttpConnectionTest, KeepsConnectionsAndAnswersPipelinedRequestsInOrder) {
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

TEST_F(HttpConnectionTest, ContinuesWhereTheClientWaitsForIt) {
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
TEST_F(HttpConnectionTest, SurvivesBadInput) {
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

TEST_F(HttpConnectionTest, CutsOffWhoSendsTooSlowly) {
  Start();
  RawClient header(port_);
  header.Send("POST /v1/chat/completions HTTP/1.1\r\nX: ");
  RawClient body(port_);
  body.Send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_THAT(header.ReadAll(), IsEmpty());
  EXPECT_THAT(body.ReadAll(), IsEmpty());
  EXPECT_EQ(engine_.submitted, 0);
}

TEST_F(HttpConnectionTest, CutsOffWhoSendsAByteAtATime) {
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

TEST_F(HttpConnectionTest, AClientThatLeavesCancelsItsRequest) {
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

TEST_F(HttpConnectionTest, AClientThatNeverReadsIsCancelled) {
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

TEST_F(HttpConnectionTest, ALastPartThatIsNotTakenIsADisconnect) {
  Start();
  FinishAStreamThatNobodyReads(std::string(1 << 20, '\1'));  // 6 MiB as JSON: no socket takes it
  ExpectOneDisconnect();
}

TEST_F(HttpConnectionTest, ALastPartThatIsTooLongIsADisconnect) {
  Start();
  FinishAStreamThatNobodyReads(std::string((1 << 20) + 1, 'x'));
  ExpectOneDisconnect();
}

TEST_F(HttpConnectionTest, SurvivesMoreConnectionsThanItTakes) {
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

TEST_F(HttpConnectionTest, StopCutsOffWhatRuns) {
  Start();
  engine_.mode = Mode::kHold;
  RawClient client(port_);
  client.Send(Chat(R"(,"stream":true)"));
  ASSERT_TRUE(Eventually([&] { return engine_.submitted == 1; }));
  OnLoop([this] { front_->Stop(); });
  EXPECT_THAT(client.ReadAll(), Not(HasSubstr("[DONE]")));
  EXPECT_TRUE(Eventually([&] { return engine_.cancelled == 1; }));
  EXPECT_FALSE(RawClient(port_).connected());
}

}  // namespace
}  // namespace anchorage::router
