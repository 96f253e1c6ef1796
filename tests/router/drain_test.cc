#include "router/drain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/router/http_fixture.h"

namespace anchorage::router {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kTimeoutMs = 1'000;
constexpr size_t kLongAnswerBytes = 16 << 20;  // more than the buffers of two sockets take

class DrainTest : public HttpFixture {
 protected:
  DrainTest() {
    options_.idle_timeout_ms = 60'000;
    options_.write_timeout_ms = 60'000;
    engine_.mode = Mode::kHold;
  }

  void Begin() {
    drain_.emplace(&dispatcher_, front_.get(), &clock_, kTimeoutMs);
    OnLoop([this] { drain_->Begin(); });
  }
  bool Over() {
    return OnLoop([this] { return drain_->Over(); });
  }
  void Answer(std::string_view text) {
    OnLoop([&] {
      engine_.Say(text);
      engine_.FinishHeld();
    });
  }
  // Returns when a part of a long answer has come, which is not all written then.
  void ReadTheBeginningOfALongAnswer(RawClient& client) {
    client.Send(Chat());
    ASSERT_TRUE(Eventually([&] { return engine_.submitted == 1; }));
    Answer(std::string(kLongAnswerBytes, 'x'));
    ASSERT_THAT(client.ReadUntil("200 OK"), HasSubstr("200 OK"));
  }
  // All that comes for a request that runs when the drain begins, and for another behind it.
  std::string AnswerAcrossTheBegin(std::string_view fields) {
    RawClient client(port_);
    client.Send(Chat(fields, "", /*close=*/false) + Request("GET", "/v1/models"));
    EXPECT_TRUE(Eventually([&] { return engine_.submitted == 1; }));
    OnLoop([this] { engine_.Say("begun"); });
    Begin();
    Answer("ended");
    return client.ReadAll();
  }

  FakeClock clock_;
  Dispatcher dispatcher_{DispatcherOptions(), proto::Identity(), &ServedTinyModel().tokenizer(),
                         &clock_, &metrics_};
  std::optional<Drain> drain_;
};

TEST_F(DrainTest, EachAnswerClosesItsConnection) {
  engine_.mode = Mode::kAnswer;
  Start();
  Begin();
  EXPECT_THAT(Exchange(Chat("", "", /*close=*/false)), HasSubstr("Connection: close"));
}

TEST_F(DrainTest, AnAnswerToAnEarlierRequestClosesItsConnection) {
  Start();
  const std::string all = AnswerAcrossTheBegin("");
  EXPECT_THAT(all, HasSubstr("Connection: close"));
  EXPECT_THAT(all, HasSubstr("begunended"));
  EXPECT_THAT(all, Not(HasSubstr(R"("object":"list")")));
}

TEST_F(DrainTest, AStreamThatHadBegunEndsAndClosesItsConnection) {
  Start();
  const std::string all = AnswerAcrossTheBegin(R"(,"stream":true)");
  EXPECT_THAT(all, HasSubstr("ended"));
  EXPECT_THAT(all, HasSubstr("data: [DONE]"));
  EXPECT_THAT(all, Not(HasSubstr(R"("object":"list")")));
}

TEST_F(DrainTest, IsOverWhenNothingRuns) {
  Start();
  Begin();
  EXPECT_FALSE(Over());  // in which the last answers are written
  EXPECT_TRUE(Over());
}

TEST_F(DrainTest, WaitsForAClientThatReadsSlowly) {
  Start();
  RawClient client(port_);
  ASSERT_NO_FATAL_FAILURE(ReadTheBeginningOfALongAnswer(client));
  Begin();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Over());
  EXPECT_GT(client.ReadAll().size(), kLongAnswerBytes - (64 << 10));
  EXPECT_TRUE(Eventually([this] { return Over(); }));
}

TEST_F(DrainTest, WaitsForNobodyWhenItsTimeIsUp) {
  Start();
  RawClient client(port_);
  ASSERT_NO_FATAL_FAILURE(ReadTheBeginningOfALongAnswer(client));
  Begin();
  OnLoop([this] { clock_.AdvanceNs(kTimeoutMs * 1'000'000); });
  EXPECT_FALSE(Over());
  EXPECT_TRUE(Over());
  EXPECT_EQ(OnLoop([this] { return front_->answering(); }), 1);
}

}  // namespace
}  // namespace anchorage::router
