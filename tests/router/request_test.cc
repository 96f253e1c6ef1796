#include "router/request.h"

#include <gtest/gtest.h>

#include "tests/router/fake_channel.h"
#include "tests/router/served_tiny_model.h"

namespace anchorage::router {
namespace {

class RequestTest : public ::testing::Test {
 protected:
  // A request in kDecoding.
  Request& Make(std::vector<std::string> stop = {}, int64_t max_new = 10) {
    RequestSpec spec;
    spec.prompt_ids = {1, 2, 3};
    spec.max_new = max_new;
    spec.stop = std::move(stop);
    sink_ = std::make_shared<RecordingSink>();
    request_ = std::make_unique<Request>(AttemptId{1, 1}, std::move(spec),
                                         &ServedTinyModel().tokenizer(), sink_, 100);
    for (const State next :
         {State::kQueued, State::kReserving, State::kPrefilling, State::kDecoding}) {
      request_->Advance(next);
    }
    return *request_;
  }
  static std::vector<int32_t> Ids(std::string_view text) {
    return ServedTinyModel().tokenizer().Encode(text);
  }

  std::shared_ptr<RecordingSink> sink_;
  std::unique_ptr<Request> request_;
};

TEST_F(RequestTest, IgnoresTokensThatItKnows) {
  Request& request = Make();
  const std::vector<int32_t> ids = {260, 261, 262};
  EXPECT_EQ(request.AcceptTokens(0, ids, std::nullopt, 5).num_new, 3);
  EXPECT_EQ(request.AcceptTokens(1, ids, std::nullopt, 6).num_new, 1);
  EXPECT_EQ(request.AcceptTokens(0, ids, std::nullopt, 7).num_new, 0);
  EXPECT_EQ(request.num_tokens(), 4);
  EXPECT_EQ(sink_->ids, (std::vector<int32_t>{260, 261, 262, 262}));
  EXPECT_EQ(*request.first_token_ns(), 5);
  EXPECT_EQ(request.last_token_ns(), 6);
}

TEST_F(RequestTest, AGapIsAFailure) {
  Request& request = Make();
  const std::vector<int32_t> ids = {260};
  EXPECT_TRUE(request.AcceptTokens(1, ids, std::nullopt, 5).error.has_value());
  EXPECT_TRUE(request.AcceptTokens(-1, ids, std::nullopt, 5).error.has_value());
}

TEST_F(RequestTest, MoreTokensThanWereAskedForIsAFailure) {
  Request& request = Make({}, 2);
  const std::vector<int32_t> ids = {260, 261, 262};
  EXPECT_TRUE(request.AcceptTokens(0, ids, std::nullopt, 5).error.has_value());
}

TEST_F(RequestTest, AStopStringEndsTextAndCountAtItself) {
  Request& request = Make({"END"}, 100);
  const std::vector<int32_t> before = Ids("some text ");
  const std::vector<int32_t> stop = Ids("END and more");
  std::vector<int32_t> all = before;
  all.insert(all.end(), stop.begin(), stop.end());
  const Request::Step step = request.AcceptTokens(0, all, std::nullopt, 5);
  EXPECT_TRUE(step.finished);
  EXPECT_TRUE(step.by_stop_string);
  EXPECT_EQ(step.finish, FinishReason::kStop);
  EXPECT_EQ(sink_->text, "some text ");
  EXPECT_LT(request.num_tokens(), static_cast<int64_t>(all.size()));
  EXPECT_GT(request.num_tokens(), static_cast<int64_t>(before.size()));
  all.resize(static_cast<size_t>(request.num_tokens()));
  EXPECT_EQ(sink_->ids, all);  // those that were counted, and none after
}

TEST_F(RequestTest, HeldBackTextComesOutAtTheEnd) {
  Request& request = Make({"END"}, 100);
  EXPECT_FALSE(request.AcceptTokens(0, Ids("abcEN"), std::nullopt, 5).finished);
  EXPECT_EQ(sink_->text, "abc");
  const Request::Step step =
      request.AcceptTokens(request.num_tokens(), {}, FinishReason::kLength, 6);
  EXPECT_TRUE(step.finished);
  EXPECT_EQ(step.finish, FinishReason::kLength);
  EXPECT_EQ(sink_->text, "abcEN");
}

TEST_F(RequestTest, EndsOnce) {
  Request& request = Make();
  Outcome failed;
  failed.kind = Outcome::Kind::kFailed;
  EXPECT_TRUE(request.End(Outcome()));
  EXPECT_FALSE(request.End(failed));
  EXPECT_EQ(sink_->ends, 1);
  EXPECT_EQ(sink_->outcome->kind, Outcome::Kind::kFinished);
  EXPECT_EQ(sink_->outcome->usage.prompt_tokens, 3);
  const std::vector<int32_t> ids = {260};
  EXPECT_EQ(request.AcceptTokens(0, ids, std::nullopt, 5).num_new, 0);
  request.Advance(State::kQueued);  // too late to matter
  EXPECT_EQ(request.state(), State::kDone);
}

TEST(RequestDeathTest, ASkippedStateEndsTheProcess) {
  RequestSpec spec;
  spec.max_new = 5;
  Request request({1, 1}, std::move(spec), &ServedTinyModel().tokenizer(),
                  std::make_shared<RecordingSink>(), 0);
  EXPECT_DEATH(request.Advance(State::kPrefilling), "no step");
}

}  // namespace
}  // namespace anchorage::router
