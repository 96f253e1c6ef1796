#include "router/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/status.h"
#include "observe/logging.h"
#include "tests/router/fake_channel.h"
#include "tests/router/served_tiny_model.h"

namespace anchorage::router {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;

class DispatcherTest : public ::testing::Test {
 protected:
  DispatcherTest() {
    observe::StartLogging("test", observe::LogLevel::kOff);
    options_.queue_size = 3;
    options_.queue_timeout_ms = 1'000;
    options_.request_timeout_ms = 5'000;
    proto::Identity identity;
    identity.set_wire_version(1);
    identity.set_plan_fingerprint(88);
    dispatcher_ = std::make_unique<Dispatcher>(options_, identity, &ServedTinyModel().tokenizer(),
                                               &clock_, &metrics_);
    prefill_ = std::make_shared<FakeChannel>(proto::ROLE_PREFILL, "prefill:1");
    decode_ = std::make_shared<FakeChannel>(proto::ROLE_DECODE, "decode:1");
  }

  void ConnectBoth(int64_t headroom = 1000) {
    dispatcher_->prefill_handler().OnUp(prefill_);
    dispatcher_->decode_handler().OnUp(decode_);
    SayState(headroom);
  }
  void SayState(int64_t headroom, int64_t limit = 1000) {
    proto::Envelope message;
    message.mutable_state()->set_ready(true);
    FromPrefill(message);
    message.mutable_state()->set_memory_limit_bytes(limit);
    message.mutable_state()->set_memory_used_bytes(limit - headroom);
    FromDecode(message);
  }
  void FromPrefill(proto::Envelope message) {
    dispatcher_->prefill_handler().OnMessage(prefill_, std::move(message));
  }
  void FromDecode(proto::Envelope message) {
    dispatcher_->decode_handler().OnMessage(decode_, std::move(message));
  }

  ApiResult<uint64_t> Submit(int64_t kv_bytes = 100, int64_t max_new = 10,
                             std::vector<std::string> stop = {}) {
    RequestSpec spec;
    spec.log_id = "r";
    spec.prompt_ids = {1, 2, 3};
    spec.max_new = max_new;
    spec.kv_bytes = max_new == 1 ? 0 : kv_bytes;
    spec.stop = std::move(stop);
    spec.sampling.set_repetition_penalty(1);
    sink_ = std::make_shared<RecordingSink>();
    return dispatcher_->Submit(std::move(spec), sink_);
  }

  static proto::Attempt AttemptOf(uint64_t request) {
    proto::Attempt attempt;
    attempt.set_request(request);
    attempt.set_generation(1);
    return attempt;
  }
  void Taken(uint64_t request) {
    proto::Envelope message;
    *message.mutable_taken()->mutable_attempt() = AttemptOf(request);
    FromPrefill(message);
  }
  void Granted(uint64_t request, int64_t bytes = 100, int64_t lease_ms = 10'000) {
    proto::Envelope message;
    *message.mutable_granted()->mutable_attempt() = AttemptOf(request);
    message.mutable_granted()->set_nonce(7);
    message.mutable_granted()->set_data_address("d:9");
    message.mutable_granted()->set_code_packing(2);
    message.mutable_granted()->set_bytes(bytes);
    message.mutable_granted()->set_lease_ms(lease_ms);
    FromDecode(message);
  }
  void PrefillDone(uint64_t request, proto::Finish finish = proto::FINISH_NONE,
                   int32_t token = 260) {
    proto::Envelope message;
    *message.mutable_prefill_done()->mutable_attempt() = AttemptOf(request);
    message.mutable_prefill_done()->set_first_token(token);
    message.mutable_prefill_done()->set_finish(finish);
    FromPrefill(message);
  }
  void Tokens(uint64_t request, int64_t index, std::vector<int32_t> ids,
              proto::Finish finish = proto::FINISH_NONE) {
    proto::Envelope message;
    *message.mutable_tokens()->mutable_attempt() = AttemptOf(request);
    message.mutable_tokens()->set_first_index(index);
    message.mutable_tokens()->mutable_ids()->Add(ids.begin(), ids.end());
    message.mutable_tokens()->set_finish(finish);
    FromDecode(message);
  }
  proto::Envelope EndedMessage(uint64_t request, absl::StatusCode code, const char* stage) {
    proto::Envelope message;
    *message.mutable_ended()->mutable_attempt() = AttemptOf(request);
    message.mutable_ended()->set_status(static_cast<int>(code));
    message.mutable_ended()->set_stage(stage);
    return message;
  }
  // Brings a new request to kDecoding and forgets the messages on the way.
  uint64_t Decoding(std::vector<std::string> stop = {}, int64_t max_new = 10) {
    const uint64_t id = *Submit(100, max_new, std::move(stop));
    Taken(id);
    Granted(id);
    PrefillDone(id);
    prefill_->sent.clear();
    decode_->sent.clear();
    return id;
  }
  void ExpectAllFree() {
    EXPECT_EQ(dispatcher_->running(), 0);
    EXPECT_EQ(dispatcher_->closing(), 0);
    EXPECT_EQ(dispatcher_->ledger().held_bytes(), 0);
    EXPECT_EQ(dispatcher_->ledger().promised_bytes(), 0);
  }

  FakeClock clock_;
  observe::MetricsRegistry registry_;
  RouterMetrics metrics_{&registry_, "tiny"};
  DispatcherOptions options_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::shared_ptr<FakeChannel> prefill_;
  std::shared_ptr<FakeChannel> decode_;
  std::shared_ptr<RecordingSink> sink_;
};

TEST_F(DispatcherTest, CarriesARequestThroughBothNodes) {
  ConnectBoth();
  const uint64_t id = *Submit();
  ASSERT_EQ(prefill_->sent.size(), 1u);
  const proto::Enqueue& enqueue = prefill_->sent[0].enqueue();
  EXPECT_EQ(enqueue.attempt().request(), id);
  EXPECT_EQ(enqueue.attempt().generation(), 1u);
  EXPECT_EQ(enqueue.attempt().request_id(), "r");
  EXPECT_EQ(enqueue.prompt_ids_size(), 3);
  EXPECT_EQ(enqueue.max_new(), 10);
  EXPECT_TRUE(decode_->sent.empty());  // nothing is reserved for who waits

  Taken(id);
  ASSERT_EQ(decode_->sent.size(), 1u);
  EXPECT_EQ(decode_->sent[0].reserve().prompt_tokens(), 3);
  EXPECT_EQ(decode_->sent[0].reserve().identity().model_fingerprint(), 77u);
  EXPECT_EQ(decode_->sent[0].reserve().prompt_ids_size(), 0);

  Granted(id);
  ASSERT_EQ(prefill_->sent.size(), 2u);
  EXPECT_EQ(prefill_->sent[1].start().nonce(), 7u);
  EXPECT_EQ(prefill_->sent[1].start().data_address(), "d:9");
  EXPECT_EQ(prefill_->sent[1].start().code_packing(), 2u);
  EXPECT_EQ(dispatcher_->ledger().held_bytes(), 100);

  PrefillDone(id);
  Tokens(id, 0, {260});
  Tokens(id, 1, {261, 262}, proto::FINISH_LENGTH);
  EXPECT_EQ(sink_->ends, 1);
  EXPECT_EQ(sink_->outcome->kind, Outcome::Kind::kFinished);
  EXPECT_EQ(sink_->outcome->finish, FinishReason::kLength);
  EXPECT_EQ(sink_->outcome->usage.completion_tokens, 3);
  EXPECT_EQ(sink_->text,
            ServedTinyModel().tokenizer().Decode(std::vector<int32_t>{260, 261, 262}, true));
  EXPECT_EQ(decode_->sent.size(), 1u);  // it knows by itself that it is over
  ExpectAllFree();
}

TEST_F(DispatcherTest, TokensMayOvertakeTheWordThatPrefillIsDone) {
  ConnectBoth();
  const uint64_t id = *Submit();
  Taken(id);
  Granted(id);
  Tokens(id, 0, {260, 261}, proto::FINISH_STOP);
  EXPECT_EQ(sink_->outcome->kind, Outcome::Kind::kFinished);
  EXPECT_EQ(dispatcher_->closing(), 1);  // prefill has not said so yet
  PrefillDone(id);
  ExpectAllFree();
}

TEST_F(DispatcherTest, OneTokenIsMadeByPrefillAlone) {
  ConnectBoth();
  const uint64_t id = *Submit(0, /*max_new=*/1);
  Taken(id);
  EXPECT_TRUE(decode_->sent.empty());
  ASSERT_EQ(prefill_->sent.size(), 2u);
  EXPECT_EQ(prefill_->sent[1].start().data_address(), "");
  PrefillDone(id, proto::FINISH_LENGTH);
  EXPECT_EQ(sink_->outcome->finish, FinishReason::kLength);
  EXPECT_EQ(sink_->outcome->usage.completion_tokens, 1);
  ExpectAllFree();
}

TEST_F(DispatcherTest, AFirstTokenThatEndsTheRequestFreesTheReservation) {
  ConnectBoth();
  const uint64_t id = *Submit();
  Taken(id);
  Granted(id);
  decode_->sent.clear();
  PrefillDone(id, proto::FINISH_STOP, /*token=*/2);
  EXPECT_EQ(sink_->outcome->finish, FinishReason::kStop);
  EXPECT_EQ(sink_->text, "");
  ASSERT_EQ(decode_->sent.size(), 1u);
  EXPECT_EQ(decode_->sent[0].cancel().attempt().request(), id);
  EXPECT_EQ(dispatcher_->ledger().held_bytes(), 100);  // until the node has said so
  FromDecode(EndedMessage(id, absl::StatusCode::kCancelled, "decode"));
  ExpectAllFree();
}

TEST_F(DispatcherTest, AStopStringCancelsDecode) {
  ConnectBoth();
  const uint64_t id = Decoding({"XY"}, 50);
  const auto ids = ServedTinyModel().tokenizer().Encode("abcXYdef");
  Tokens(id, 0, {ids.begin(), ids.end()});
  EXPECT_EQ(sink_->text, "abc");
  EXPECT_EQ(sink_->outcome->finish, FinishReason::kStop);
  ASSERT_EQ(decode_->sent.size(), 1u);
  EXPECT_TRUE(decode_->sent[0].has_cancel());
  Tokens(id, static_cast<int64_t>(ids.size()), {260});  // already on its way
  EXPECT_EQ(sink_->ends, 1);
  FromDecode(EndedMessage(id, absl::StatusCode::kCancelled, "decode"));
  ExpectAllFree();
}

TEST_F(DispatcherTest, CancelReachesWhoeverHoldsTheAttempt) {
  ConnectBoth();
  const uint64_t queued = *Submit();
  EXPECT_STREQ(dispatcher_->Cancel(queued), "queue");
  EXPECT_TRUE(prefill_->sent.back().has_cancel());
  EXPECT_TRUE(decode_->sent.empty());
  FromPrefill(EndedMessage(queued, absl::StatusCode::kCancelled, "queue"));
  ExpectAllFree();

  const uint64_t prefilling = *Submit();
  Taken(prefilling);
  Granted(prefilling);
  EXPECT_STREQ(dispatcher_->Cancel(prefilling), "prefill");
  EXPECT_TRUE(prefill_->sent.back().has_cancel());
  EXPECT_TRUE(decode_->sent.back().has_cancel());
  FromPrefill(EndedMessage(prefilling, absl::StatusCode::kCancelled, "prefill"));
  FromDecode(EndedMessage(prefilling, absl::StatusCode::kCancelled, "decode"));
  ExpectAllFree();
  EXPECT_STREQ(dispatcher_->Cancel(prefilling), "");
}

TEST_F(DispatcherTest, AGrantThatComesTooLateIsCancelled) {
  ConnectBoth();
  const uint64_t id = *Submit();
  Taken(id);
  dispatcher_->Cancel(id);
  decode_->sent.clear();
  Granted(id);
  ASSERT_EQ(decode_->sent.size(), 1u);
  EXPECT_TRUE(decode_->sent[0].has_cancel());
}

TEST_F(DispatcherTest, RepeatsACancelThatNobodyAnswers) {
  ConnectBoth();
  const uint64_t id = Decoding();
  dispatcher_->Cancel(id);
  EXPECT_EQ(decode_->sent.size(), 1u);
  clock_.AdvanceNs(options_.cancel_repeat_ms * kNsPerMs);
  dispatcher_->Tick();
  EXPECT_EQ(decode_->sent.size(), 2u);
  FromDecode(EndedMessage(id, absl::StatusCode::kOk, "decode"));
  ExpectAllFree();
}

TEST_F(DispatcherTest, WithoutWorkersRequestsAreTurnedAway) {
  EXPECT_EQ(Submit().error().status, 503);
  EXPECT_FALSE(dispatcher_->Ready().ok());
  dispatcher_->prefill_handler().OnUp(prefill_);
  dispatcher_->decode_handler().OnUp(decode_);
  EXPECT_EQ(Submit().error().status, 503);  // connected, but not heard of
  SayState(1000);
  EXPECT_TRUE(dispatcher_->Ready().ok());
  EXPECT_TRUE(Submit().ok());
}

TEST_F(DispatcherTest, WhatCanNeverFitIsRefusedAtOnceWithTheNumbers) {
  ConnectBoth();
  const auto refused = Submit(1001);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, 400);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("1001"));
}

TEST_F(DispatcherTest, HoldsBackWhatDoesNotFitInOrder) {
  ConnectBoth(/*headroom=*/150);
  const uint64_t first = *Submit(100);
  const uint64_t second = *Submit(100);  // not beside the first
  const uint64_t third = *Submit(10);    // would fit, but it is not its turn
  EXPECT_EQ(prefill_->sent.size(), 1u);
  EXPECT_EQ(dispatcher_->ledger().promised_bytes(), 100);
  EXPECT_EQ(Submit().error().status, 429);
  EXPECT_GT(Submit().error().retry_after_seconds, 0);
  dispatcher_->Cancel(first);
  SayState(150);
  ASSERT_EQ(prefill_->sent.size(), 4u);  // enqueue, cancel, and the two that waited
  EXPECT_EQ(prefill_->sent[2].enqueue().attempt().request(), second);
  EXPECT_EQ(prefill_->sent[3].enqueue().attempt().request(), third);
}

TEST_F(DispatcherTest, WhoWaitsTooLongIsToldToComeBack) {
  ConnectBoth(/*headroom=*/50);
  Submit(100);
  clock_.AdvanceNs(999 * kNsPerMs);
  dispatcher_->Tick();
  EXPECT_EQ(sink_->ends, 0);
  clock_.AdvanceNs(1 * kNsPerMs);
  dispatcher_->Tick();
  EXPECT_EQ(sink_->outcome->error->status, 503);
  EXPECT_EQ(sink_->outcome->error->reason, ErrorReason::kQueueTimeout);
  ExpectAllFree();
}

TEST_F(DispatcherTest, RequestsHaveADeadline) {
  ConnectBoth();
  const uint64_t id = Decoding();
  clock_.AdvanceNs(5'000 * kNsPerMs);
  dispatcher_->Tick();
  EXPECT_EQ(sink_->outcome->error->status, 504);
  EXPECT_TRUE(decode_->sent.back().has_cancel());
  FromDecode(EndedMessage(id, absl::StatusCode::kCancelled, "decode"));
  ExpectAllFree();
}

TEST_F(DispatcherTest, ARefusedReservationWaitsForTheNextState) {
  ConnectBoth();
  const uint64_t id = *Submit();
  Taken(id);
  proto::Envelope refusal;
  *refusal.mutable_refused()->mutable_attempt() = AttemptOf(id);
  refusal.mutable_refused()->set_needed_bytes(100);
  refusal.mutable_refused()->set_headroom_bytes(20);
  FromDecode(refusal);
  dispatcher_->Tick();
  EXPECT_EQ(decode_->sent.size(), 1u);
  SayState(20);
  EXPECT_EQ(decode_->sent.size(), 1u);
  SayState(100);
  EXPECT_EQ(decode_->sent.size(), 2u);
  refusal.mutable_refused()->set_never(true);
  refusal.mutable_refused()->set_needed_bytes(1001);
  FromDecode(refusal);
  EXPECT_EQ(sink_->outcome->error->status, 400);
  EXPECT_TRUE(prefill_->sent.back().has_cancel());
  FromPrefill(EndedMessage(id, absl::StatusCode::kCancelled, "queue"));
  ExpectAllFree();
}

TEST_F(DispatcherTest, AFailureAtOneNodeIsCancelledAtTheOther) {
  ConnectBoth();
  const uint64_t id = *Submit();
  Taken(id);
  Granted(id);
  FromPrefill(EndedMessage(id, absl::StatusCode::kUnavailable, "transfer"));
  EXPECT_EQ(sink_->outcome->error->status, 502);
  EXPECT_EQ(sink_->outcome->error->stage, "transfer");
  EXPECT_EQ(sink_->outcome->error->reason, ErrorReason::kTransferFailed);
  EXPECT_TRUE(decode_->sent.back().has_cancel());
  FromDecode(EndedMessage(id, absl::StatusCode::kOk, "decode"));
  ExpectAllFree();
}

TEST_F(DispatcherTest, OnlyARefusalInTheQueueIsTheClientsFault) {
  ConnectBoth();
  uint64_t id = *Submit();
  FromPrefill(EndedMessage(id, absl::StatusCode::kInvalidArgument, "queue"));
  EXPECT_EQ(sink_->outcome->error->status, 400);
  id = *Submit();
  Taken(id);
  Granted(id);
  FromPrefill(EndedMessage(id, absl::StatusCode::kInvalidArgument, "transfer"));
  EXPECT_EQ(sink_->outcome->error->status, 502);
}

TEST_F(DispatcherTest, ANodeThatIsLostFailsWhatItHad) {
  ConnectBoth();
  const uint64_t id = Decoding();
  Tokens(id, 0, {260});
  dispatcher_->decode_handler().OnDown(decode_, Unavailable("gone"));
  EXPECT_EQ(sink_->outcome->error->stage, "decode");
  EXPECT_FALSE(dispatcher_->Ready().ok());
  ExpectAllFree();
}

TEST_F(DispatcherTest, ALostPrefillNodeDoesNotDisturbDecoding) {
  ConnectBoth();
  const uint64_t id = Decoding();
  dispatcher_->prefill_handler().OnDown(prefill_, Unavailable("gone"));
  EXPECT_EQ(sink_->ends, 0);
  Tokens(id, 0, {260}, proto::FINISH_STOP);
  EXPECT_EQ(sink_->outcome->kind, Outcome::Kind::kFinished);
  ExpectAllFree();
}

TEST_F(DispatcherTest, AGapInTheTokensFailsTheRequest) {
  ConnectBoth();
  const uint64_t id = Decoding();
  Tokens(id, 1, {260});
  EXPECT_EQ(sink_->outcome->kind, Outcome::Kind::kFailed);
  EXPECT_TRUE(decode_->sent.back().has_cancel());
}

TEST_F(DispatcherTest, StaleMessagesAreAnsweredAndChangeNothing) {
  ConnectBoth();
  Taken(999);
  EXPECT_TRUE(prefill_->sent.back().has_cancel());
  Granted(999);
  EXPECT_TRUE(decode_->sent.back().has_cancel());
  Tokens(999, 0, {260});
  EXPECT_TRUE(decode_->sent.back().has_cancel());
  FromDecode(EndedMessage(999, absl::StatusCode::kOk, "decode"));
  PrefillDone(999);
  ExpectAllFree();
}

TEST_F(DispatcherTest, DrainingRefusesNewRequestsAndFinishesOldOnes) {
  ConnectBoth();
  const uint64_t id = Decoding();
  dispatcher_->BeginDrain();
  EXPECT_FALSE(dispatcher_->Ready().ok());
  const auto running = sink_;
  EXPECT_EQ(Submit().error().status, 503);
  EXPECT_EQ(running->ends, 0);
  Tokens(id, 0, {260}, proto::FINISH_STOP);
  EXPECT_EQ(running->outcome->kind, Outcome::Kind::kFinished);
  ExpectAllFree();
}

TEST_F(DispatcherTest, RenewsTheLeaseAtAThirdOfItWhilePrefillRuns) {
  ConnectBoth();
  const uint64_t id = *Submit();
  Taken(id);
  Granted(id, 100, /*lease_ms=*/900);
  decode_->sent.clear();
  dispatcher_->Tick();
  clock_.AdvanceNs(299 * kNsPerMs);
  dispatcher_->Tick();
  EXPECT_TRUE(decode_->sent.empty());
  for (int i = 0; i < 3; ++i) {
    clock_.AdvanceNs((i == 0 ? 1 : 300) * kNsPerMs);
    dispatcher_->Tick();
    dispatcher_->Tick();
    ASSERT_EQ(decode_->sent.size(), 1u);
    EXPECT_EQ(decode_->sent[0].renew().attempt().request(), id);
    EXPECT_EQ(decode_->sent[0].renew().attempt().generation(), 1u);
    decode_->sent.clear();
  }
  PrefillDone(id);
  clock_.AdvanceNs(900 * kNsPerMs);
  dispatcher_->Tick();
  EXPECT_TRUE(decode_->sent.empty());
}

TEST_F(DispatcherTest, RenewsNoLeaseForALostPrefillNode) {
  ConnectBoth();
  const uint64_t id = *Submit();
  Taken(id);
  Granted(id, 100, /*lease_ms=*/900);
  dispatcher_->prefill_handler().OnDown(prefill_, Unavailable("gone"));
  EXPECT_TRUE(decode_->sent.back().has_cancel());
  decode_->sent.clear();
  clock_.AdvanceNs(900 * kNsPerMs);
  dispatcher_->Tick();
  EXPECT_TRUE(decode_->sent.empty());
}

TEST_F(DispatcherTest, IsAliveWhileItTicks) {
  clock_.AdvanceNs(29'000 * kNsPerMs);
  EXPECT_TRUE(dispatcher_->Live().ok());
  clock_.AdvanceNs(1'000 * kNsPerMs);
  EXPECT_FALSE(dispatcher_->Live().ok());
  dispatcher_->Tick();
  EXPECT_TRUE(dispatcher_->Live().ok());
}

TEST_F(DispatcherTest, NeverPairsNodesOfDifferentModels) {
  ConnectBoth();
  proto::Envelope ready;
  ready.mutable_state()->set_ready(true);
  ready.mutable_state()->set_memory_limit_bytes(1'000'000);
  const auto other_decode =
      std::make_shared<FakeChannel>(proto::ROLE_DECODE, "decode:2", /*model=*/78);
  dispatcher_->decode_handler().OnUp(other_decode);
  dispatcher_->decode_handler().OnMessage(other_decode, ready);
  Taken(*Submit());  // the other node has more room
  ASSERT_EQ(decode_->sent.size(), 1u);
  EXPECT_EQ(decode_->sent[0].reserve().identity().model_fingerprint(), 77u);
  EXPECT_TRUE(other_decode->sent.empty());

  dispatcher_->decode_handler().OnDown(decode_, Unavailable("gone"));
  EXPECT_THAT(std::string(dispatcher_->Ready().message()), ::testing::HasSubstr("same model"));
  EXPECT_EQ(Submit().error().status, 503);
}

// A prefill and a decode node of another model beside the fixture's.
class TwoModelsTest : public DispatcherTest {
 protected:
  void ConnectAll() {
    ConnectBoth();
    dispatcher_->prefill_handler().OnUp(other_prefill_);
    dispatcher_->decode_handler().OnUp(other_decode_);
    proto::Envelope state;
    state.mutable_state()->set_ready(true);
    FromOtherPrefill(state);
    state.mutable_state()->set_memory_limit_bytes(1000);
    FromOtherDecode(state);
  }
  void FromOtherPrefill(const proto::Envelope& message) {
    dispatcher_->prefill_handler().OnMessage(other_prefill_, message);
  }
  void FromOtherDecode(const proto::Envelope& message) {
    dispatcher_->decode_handler().OnMessage(other_decode_, message);
  }
  void TakenByOther(uint64_t request) {
    proto::Envelope message;
    *message.mutable_taken()->mutable_attempt() = AttemptOf(request);
    FromOtherPrefill(message);
  }
  // The requests that a decode node was asked to reserve memory for, in that order.
  static std::vector<uint64_t> Reserved(const FakeChannel& decode) {
    std::vector<uint64_t> requests;
    for (const proto::Envelope& message : decode.sent) {
      if (message.has_reserve()) requests.push_back(message.reserve().attempt().request());
    }
    return requests;
  }

  std::shared_ptr<FakeChannel> other_prefill_ =
      std::make_shared<FakeChannel>(proto::ROLE_PREFILL, "prefill:2", /*model=*/78);
  std::shared_ptr<FakeChannel> other_decode_ =
      std::make_shared<FakeChannel>(proto::ROLE_DECODE, "decode:2", /*model=*/78);
};

TEST_F(TwoModelsTest, AModelWithoutADecodeNodeHoldsUpNoOther) {
  ConnectAll();
  const uint64_t orphan = *Submit();
  const uint64_t other = *Submit();  // goes to the other prefill node, whose queue is shorter
  ASSERT_EQ(other_prefill_->sent.size(), 1u);
  dispatcher_->decode_handler().OnDown(decode_, Unavailable("gone"));
  Taken(orphan);
  TakenByOther(other);
  EXPECT_THAT(Reserved(*other_decode_), ::testing::ElementsAre(other));
}

TEST_F(TwoModelsTest, AModelWithoutMemoryHoldsUpItsOwnRequestsAlone) {
  ConnectAll();
  const uint64_t first = *Submit(100);
  const uint64_t other = *Submit(100);
  const uint64_t second = *Submit(10);
  SayState(/*headroom=*/50);
  Taken(first);
  Taken(second);  // would fit, but it is not its turn
  TakenByOther(other);
  EXPECT_TRUE(decode_->sent.empty());
  EXPECT_THAT(Reserved(*other_decode_), ::testing::ElementsAre(other));
  SayState(/*headroom=*/500);
  EXPECT_THAT(Reserved(*decode_), ::testing::ElementsAre(first, second));
}

TEST_F(DispatcherTest, RefusedReservationsKeepTheirOrder) {
  ConnectBoth();
  const uint64_t first = *Submit();
  const uint64_t second = *Submit();
  Taken(first);
  Taken(second);
  decode_->sent.clear();
  proto::Envelope refusal;
  for (const uint64_t id : {first, second}) {
    *refusal.mutable_refused()->mutable_attempt() = AttemptOf(id);
    FromDecode(refusal);
  }
  SayState(/*headroom=*/1000);
  ASSERT_EQ(decode_->sent.size(), 2u);
  EXPECT_EQ(decode_->sent[0].reserve().attempt().request(), first);
  EXPECT_EQ(decode_->sent[1].reserve().attempt().request(), second);
}

TEST_F(DispatcherTest, ANodeWhoseMemoryNumbersMakeNoSenseGetsNothing) {
  ConnectBoth();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  struct Case {
    int64_t limit, used, reserved, quarantined;
  };
  for (const Case& bad : {Case{1000, -5000, 0, 0}, Case{1000, 0, kLeast, 0}, Case{1000, 0, 0, -1},
                          Case{1000, kMost, kMost, 0}, Case{1000, 0, kMost, kMost},
                          Case{kLeast, 1, 0, 0}, Case{-1, 0, 0, 0}}) {
    proto::Envelope message;
    message.mutable_state()->set_ready(true);
    message.mutable_state()->set_memory_limit_bytes(bad.limit);
    message.mutable_state()->set_memory_used_bytes(bad.used);
    message.mutable_state()->set_memory_reserved_bytes(bad.reserved);
    message.mutable_state()->set_memory_quarantined_bytes(bad.quarantined);
    FromDecode(message);
    Submit(100);
    EXPECT_TRUE(prefill_->sent.empty()) << message.DebugString();
    dispatcher_->FailAll(Draining());
    prefill_->sent.clear();
  }
  SayState(/*headroom=*/1000);
  EXPECT_TRUE(Submit(100).ok());
  EXPECT_EQ(prefill_->sent.size(), 1u);
}

TEST_F(DispatcherTest, AGrantCountsAsWhatWasPlanned) {
  ConnectBoth();
  const uint64_t id = *Submit(100);
  Taken(id);
  Granted(id, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(dispatcher_->ledger().held_bytes(), 100);
}

TEST_F(DispatcherTest, APrefillNodeThatBeginsToDrainSendsTheClientElsewhere) {
  ConnectBoth();
  const uint64_t id = *Submit();
  FromPrefill(EndedMessage(id, absl::StatusCode::kUnavailable, "queue"));
  EXPECT_EQ(sink_->outcome->error->status, 503);
  EXPECT_GT(sink_->outcome->error->retry_after_seconds, 0);
  ExpectAllFree();
}

TEST_F(DispatcherTest, APrefillThatEndsWhileMemoryIsAwaitedLeavesNoPromise) {
  ConnectBoth(/*headroom=*/100);
  const uint64_t first = *Submit();
  Taken(first);
  SayState(/*headroom=*/50);
  proto::Envelope refusal;
  *refusal.mutable_refused()->mutable_attempt() = AttemptOf(first);
  refusal.mutable_refused()->set_needed_bytes(100);
  FromDecode(refusal);  // it waits for memory
  decode_->sent.clear();
  FromPrefill(EndedMessage(first, absl::StatusCode::kDeadlineExceeded, "queue"));
  EXPECT_TRUE(decode_->sent.empty()) << "a node that holds nothing is told nothing";
  ExpectAllFree();
}

TEST_F(DispatcherTest, ANodeThatNeverTakesARequestIsNotTheClientsFault) {
  ConnectBoth();
  const uint64_t id = *Submit();
  Taken(id);
  proto::Envelope message;
  *message.mutable_refused()->mutable_attempt() = AttemptOf(id);
  message.mutable_refused()->set_never(true);
  message.mutable_refused()->set_reason("the plans differ");
  FromDecode(message);
  ASSERT_TRUE(sink_->outcome.has_value());
  EXPECT_GE(sink_->outcome->error->status, 500);
}

TEST_F(DispatcherTest, JudgesWorkersByTheirHello) {
  transport::ControlHandler& handler = dispatcher_->decode_handler();
  proto::Hello hello = decode_->peer();
  EXPECT_TRUE(handler.OnHello(hello).ok());
  EXPECT_FALSE(dispatcher_->prefill_handler().OnHello(hello).ok());  // a decode node there
  hello.mutable_identity()->set_plan_fingerprint(1);
  EXPECT_THAT(std::string(handler.OnHello(hello).message()), ::testing::HasSubstr("--ratio"));
  hello = decode_->peer();
  hello.mutable_identity()->set_wire_version(2);
  EXPECT_FALSE(handler.OnHello(hello).ok());
}

}  // namespace
}  // namespace anchorage::router
