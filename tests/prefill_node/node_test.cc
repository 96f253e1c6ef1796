#include "prefill_node/node.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "observe/logging.h"
#include "tests/support/router_channel.h"
#include "tests/support/tiny_model.h"
#include "worker/wire.h"

namespace anchorage::prefill {
namespace {

using ::testing::HasSubstr;
using testing::RouterChannel;

constexpr int64_t kPatienceMs = 20'000;
constexpr int kLong = 8'000;  // tokens
constexpr int64_t kForEver = std::numeric_limits<int64_t>::max();

class PrefillNodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    observe::StartLogging("test", observe::LogLevel::kOff);
    settings_.control = "127.0.0.1:0";
    settings_.transport = "tcp";
    model_ = worker::LoadModel(testing::TinyModelPath()).value();
    node_ = PrefillNode::Create(settings_, {.queue = {.max_prompts = 2}, .data_host = "127.0.0.1"},
                                model_, loop_, registry_)
                .value();
    ASSERT_TRUE(node_->Start().ok());
  }

  static proto::Attempt Attempt(uint64_t request) {
    return worker::ToProto(AttemptId{request, 1}, "r");
  }
  static proto::Envelope GoodEnqueue(uint64_t request, int prompt_tokens = 3) {
    proto::Envelope message;
    proto::Enqueue& enqueue = *message.mutable_enqueue();
    *enqueue.mutable_attempt() = Attempt(request);
    for (int i = 0; i < prompt_tokens; ++i) enqueue.add_prompt_ids(i % 100);
    enqueue.set_max_new(1);
    return message;
  }
  // Of an attempt that needs no decode node.
  static proto::Envelope Start(uint64_t request) {
    proto::Envelope message;
    *message.mutable_start()->mutable_attempt() = Attempt(request);
    return message;
  }

  // What the node says to the message at once.
  std::vector<proto::Envelope> Answers(const proto::Envelope& message) {
    const size_t before = router_->sent.size();
    node_->OnMessage(router_, message);
    return {router_->sent.begin() + static_cast<std::ptrdiff_t>(before), router_->sent.end()};
  }

  void ExpectTaken(const proto::Envelope& enqueue) {
    const std::vector<proto::Envelope> answers = Answers(enqueue);
    ASSERT_EQ(answers.size(), 1u);
    ASSERT_TRUE(answers[0].has_taken()) << answers[0].ShortDebugString();
    EXPECT_EQ(answers[0].taken().attempt().request(), enqueue.enqueue().attempt().request());
  }
  void ExpectEnded(const proto::Envelope& message, absl::StatusCode code, const std::string& words,
                   const std::string& stage = "queue") {
    const std::vector<proto::Envelope> answers = Answers(message);
    ASSERT_EQ(answers.size(), 1u);
    ExpectEndedSays(answers[0], code, words, stage);
  }
  static void ExpectEndedSays(const proto::Envelope& message, absl::StatusCode code,
                              const std::string& words, const std::string& stage) {
    ASSERT_TRUE(message.has_ended()) << message.ShortDebugString();
    EXPECT_EQ(message.ended().status(), static_cast<int>(code));
    EXPECT_THAT(message.ended().message(), HasSubstr(words));
    EXPECT_EQ(message.ended().stage(), stage);
  }
  void ExpectNothingIsLeft() {
    EXPECT_TRUE(node_->Idle());
    const auto observer = std::make_shared<RouterChannel>();
    node_->OnUp(observer);
    const proto::NodeState& state = observer->sent.at(0).state();
    EXPECT_EQ(state.queued_requests(), 0);
    EXPECT_EQ(state.queued_tokens(), 0);
    EXPECT_EQ(state.running_requests(), 0);
  }

  // Runs the loop, once, until the node has sent `count` messages in all.
  void RunUntilSent(size_t count) {
    router_->on_sent = [this, count](const proto::Envelope&) {
      if (router_->sent.size() == count) loop_.Stop(/*drain_ms=*/0);
    };
    loop_.After(kPatienceMs, [this] { loop_.Stop(/*drain_ms=*/0); });
    loop_.Run();
    ASSERT_EQ(router_->sent.size(), count);
  }

  worker::Settings settings_;
  worker::LoadedModel model_;
  transport::EventLoop loop_;
  observe::MetricsRegistry registry_;
  std::shared_ptr<RouterChannel> router_ = std::make_shared<RouterChannel>();
  std::unique_ptr<PrefillNode> node_;
};

TEST_F(PrefillNodeTest, AGoodPromptIsTakenAndPrefilled) {
  ExpectTaken(GoodEnqueue(1));
  EXPECT_FALSE(node_->Idle());
  EXPECT_TRUE(Answers(Start(1)).empty());
  RunUntilSent(2);
  const proto::PrefillDone& done = router_->sent[1].prefill_done();
  EXPECT_EQ(done.attempt().request(), 1u);
  EXPECT_EQ(done.finish(), proto::FINISH_LENGTH);
  ExpectNothingIsLeft();
}

TEST_F(PrefillNodeTest, LengthsThatNoPlanHasAreRefused) {
  for (const int64_t max_new : {int64_t{0}, int64_t{-1}, -kForEver}) {
    proto::Envelope message = GoodEnqueue(1);
    message.mutable_enqueue()->set_max_new(max_new);
    ExpectEnded(message, absl::StatusCode::kInvalidArgument,
                std::to_string(max_new) + " new tokens were asked for");
  }
  for (const int64_t max_new : {int64_t{1} << 40, kForEver}) {
    proto::Envelope message = GoodEnqueue(1);
    message.mutable_enqueue()->set_max_new(max_new);
    ExpectEnded(message, absl::StatusCode::kInvalidArgument, "new tokens must be");
  }
  ExpectEnded(GoodEnqueue(1, /*prompt_tokens=*/0), absl::StatusCode::kInvalidArgument,
              "prompt tokens must be");
  ExpectNothingIsLeft();
  ExpectTaken(GoodEnqueue(1));
}

TEST_F(PrefillNodeTest, SamplingThatTheModelCannotDoIsRefused) {
  proto::Envelope message = GoodEnqueue(1);
  message.mutable_enqueue()->mutable_sampling()->set_temperature(std::nanf(""));
  ExpectEnded(message, absl::StatusCode::kInvalidArgument, "temperature");
  message = GoodEnqueue(1);
  message.mutable_enqueue()->mutable_sampling()->add_stop_ids(1 << 30);
  ExpectEnded(message, absl::StatusCode::kInvalidArgument, "stop_ids names token 1073741824");
  ExpectNothingIsLeft();
  ExpectTaken(GoodEnqueue(1));
}

TEST_F(PrefillNodeTest, ADeadlineBeyondAllTimeIsNoneThatHasPassed) {
  proto::Envelope message = GoodEnqueue(1);
  message.mutable_enqueue()->set_deadline_ms(kForEver);
  ExpectTaken(message);
}

TEST_F(PrefillNodeTest, ADeadlineEndsWhatWaitsInTheQueue) {
  ExpectTaken(GoodEnqueue(1));
  proto::Envelope message = GoodEnqueue(2);
  message.mutable_enqueue()->set_deadline_ms(1);
  EXPECT_TRUE(Answers(message).empty());
  RunUntilSent(2);
  EXPECT_EQ(router_->sent[1].ended().attempt().request(), 2u);
  ExpectEndedSays(router_->sent[1], absl::StatusCode::kDeadlineExceeded, "deadline has passed",
                  "queue");
}

TEST_F(PrefillNodeTest, AFullQueueRefusesAndKeepsWhatWaits) {
  ExpectTaken(GoodEnqueue(1));
  EXPECT_TRUE(Answers(GoodEnqueue(2)).empty());
  EXPECT_TRUE(Answers(GoodEnqueue(3)).empty());
  ExpectEnded(GoodEnqueue(4), absl::StatusCode::kResourceExhausted, "the prefill queue is full");
  proto::Envelope cancel;
  *cancel.mutable_cancel()->mutable_attempt() = Attempt(1);
  const std::vector<proto::Envelope> answers = Answers(cancel);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].ended().attempt().request(), 1u);
  EXPECT_EQ(answers[1].taken().attempt().request(), 2u);
  EXPECT_EQ(answers[2].taken().attempt().request(), 3u);
}

// The first long prompt runs all the while: it takes far longer than the loop's next look at the
// queue, which is when the second is taken.
TEST_F(PrefillNodeTest, ShortPromptsPassALongOneThatWaitsBehindAnother) {
  ExpectTaken(GoodEnqueue(1, kLong));
  EXPECT_TRUE(Answers(Start(1)).empty());
  node_->OnMessage(router_, GoodEnqueue(2, kLong));
  if (router_->sent.size() == 1) RunUntilSent(2);
  ASSERT_EQ(router_->sent[1].taken().attempt().request(), 2u);
  EXPECT_TRUE(Answers(GoodEnqueue(3, kLong)).empty());
  EXPECT_TRUE(Answers(GoodEnqueue(4)).empty());  // no grant yet: nobody takes memory before it
  const std::vector<proto::Envelope> answers = Answers(Start(2));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].taken().attempt().request(), 4u);
}

TEST_F(PrefillNodeTest, AnAttemptThatIsAskedForTwiceIsAnsweredOnce) {
  ExpectTaken(GoodEnqueue(1));
  EXPECT_TRUE(Answers(GoodEnqueue(1)).empty());
}

TEST_F(PrefillNodeTest, ADrainingNodeRefuses) {
  node_->Drain();
  ExpectEnded(GoodEnqueue(1), absl::StatusCode::kUnavailable, "draining");
  ExpectNothingIsLeft();
}

TEST_F(PrefillNodeTest, ATokenThatTheModelDoesNotHaveEndsItsPromptAlone) {
  const auto vocab = static_cast<int32_t>(model_.model->config().vocab_size);
  proto::Envelope message = GoodEnqueue(1);
  message.mutable_enqueue()->set_prompt_ids(2, vocab);
  ExpectTaken(message);
  EXPECT_TRUE(Answers(Start(1)).empty());
  RunUntilSent(2);
  ExpectEndedSays(router_->sent[1], absl::StatusCode::kInvalidArgument,
                  "token " + std::to_string(vocab) + " at position 2", "prefill");
  ExpectNothingIsLeft();
  ExpectTaken(GoodEnqueue(2));
}

TEST_F(PrefillNodeTest, AStartThatNamesNothingToStartIsAnswered) {
  ExpectEnded(Start(1), absl::StatusCode::kNotFound, "no such attempt", "prefill");
}

TEST_F(PrefillNodeTest, AStartThatSaysNotWhereToSendOrHowToPackEndsItsAttempt) {
  proto::Envelope enqueue = GoodEnqueue(1);
  enqueue.mutable_enqueue()->set_max_new(2);
  ExpectTaken(enqueue);
  ExpectEnded(Start(1), absl::StatusCode::kInvalidArgument, "nowhere to send the cache", "prefill");
  ExpectNothingIsLeft();
  ExpectTaken(GoodEnqueue(1));
  proto::Envelope start = Start(1);
  start.mutable_start()->set_code_packing(7);
  ExpectEnded(start, absl::StatusCode::kInvalidArgument, "unknown code packing 7", "prefill");
  ExpectNothingIsLeft();
}

TEST(PrefillNodeMetricsTest, TransfersAreLabelledWithTheTransportInUse) {
  worker::Settings settings;
  settings.transport = "ucx";
  const worker::LoadedModel model = worker::LoadModel(testing::TinyModelPath()).value();
  transport::EventLoop loop;
  observe::MetricsRegistry registry;
  const auto node = PrefillNode::Create(settings, {}, model, loop, registry);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_THAT(registry.Serialize(),
              HasSubstr("anchorage_kv_transfer_bytes_total{direction=\"tx\",role=\"prefill\","
                        "transport=\"ucx\"} 0\n"));
}

}  // namespace
}  // namespace anchorage::prefill
