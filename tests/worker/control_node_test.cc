#include "worker/control_node.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/wire_version.h"
#include "observe/logging.h"
#include "tests/support/router_channel.h"

namespace anchorage::worker {
namespace {

using testing::RouterChannel;
using transport::ControlChannelPtr;

proto::Identity TinyIdentity() {
  proto::Identity identity;
  identity.set_wire_version(kWireVersion);
  identity.set_model_fingerprint(11);
  identity.set_plan_fingerprint(22);
  identity.set_kv_mode("none");
  return identity;
}

Settings LoopbackSettings() {
  Settings settings;
  settings.role = "decode";
  settings.control = "127.0.0.1:0";
  settings.transport = "tcp";
  settings.token = "secret";
  settings.node_name = "d0";
  return settings;
}

// A node that does nothing but tell what it was asked.
class IdleNode final : public ControlNode {
 public:
  explicit IdleNode(transport::EventLoop& loop)
      : ControlNode(proto::ROLE_DECODE, LoopbackSettings(), TinyIdentity(), loop) {}
  ~IdleNode() override { Stop(); }

  absl::Status Live() const override { return absl::OkStatus(); }
  bool Idle() const override { return true; }

  absl::Status start_status;
  absl::Status health;
  int64_t active_sequences = 0;
  std::vector<std::string> calls;

 private:
  absl::Status StartWork() override {
    calls.push_back("start");
    return start_status;
  }
  void StopWork() override { calls.push_back("stop"); }
  absl::Status Healthy() const override { return health; }
  void DescribeState(proto::NodeState& state) const override {
    state.set_active_sequences(active_sequences);
  }
  bool HandleMessage(const ControlChannelPtr&, proto::Envelope& message) override {
    calls.push_back(message.has_cancel() ? "cancel" : "unknown");
    return message.has_cancel();
  }
  void OnRouterGone(const ControlChannelPtr&) override { calls.push_back("gone"); }
};

// What a router sees of the node. The loop stops at the first state that `until` accepts, or when
// the node turns the router away.
class RouterSide : public transport::ControlHandler {
 public:
  explicit RouterSide(transport::EventLoop& loop) : loop_(loop) {}

  absl::Status OnHello(const proto::Hello& hello) override {
    node = hello;
    return absl::OkStatus();
  }
  void OnUp(ControlChannelPtr up) override {
    channel = up;
    if (on_up) std::exchange(on_up, nullptr)();
  }
  void OnMessage(ControlChannelPtr, proto::Envelope message) override {
    states.push_back(message.state());
    if (until(states.back())) loop_.Stop(/*drain_ms=*/0);
  }
  void OnDown(ControlChannelPtr, absl::Status) override {}

  proto::Hello node;
  ControlChannelPtr channel;
  std::vector<proto::NodeState> states;
  std::function<void()> on_up;
  std::function<bool(const proto::NodeState&)> until = [](const auto&) { return true; };

 private:
  transport::EventLoop& loop_;
};

class ControlNodeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(node_.Start().ok()); }

  // Runs the loop until `router_` has seen what it waits for; false: it never did.
  bool Meet(uint64_t plan_fingerprint = 22) {
    proto::Hello hello;
    hello.set_role(proto::ROLE_ROUTER);
    hello.set_token("secret");
    hello.set_node_name("r0");
    *hello.mutable_identity() = TinyIdentity();
    hello.mutable_identity()->set_plan_fingerprint(plan_fingerprint);
    bool in_time = true;
    loop_.After(patience_ms_, [&] {
      in_time = false;
      loop_.Stop(/*drain_ms=*/0);
    });
    std::unique_ptr<transport::ControlDialer> dialer;
    loop_.After(kDialDelayMs, [&] {
      dialer = transport::DialControl(loop_.io(), node_.control_address(), /*own_boot=*/7, hello,
                                      {}, router_);
    });
    loop_.Run();
    return in_time;
  }

  // The state has been pushed to nobody by then, so that a router gets it because it is new.
  static constexpr int64_t kDialDelayMs = 50;

  int64_t patience_ms_ = 10'000;
  transport::EventLoop loop_;
  IdleNode node_{loop_};
  RouterSide router_{loop_};
};

TEST_F(ControlNodeTest, ARouterLearnsWhoTheNodeIsAndItsState) {
  node_.active_sequences = 5;
  patience_ms_ = 800;  // less than until the next refresh
  ASSERT_TRUE(Meet());
  EXPECT_EQ(router_.node.role(), proto::ROLE_DECODE);
  EXPECT_EQ(router_.node.node_name(), "d0");
  EXPECT_EQ(router_.node.transport(), "tcp");
  EXPECT_EQ(router_.node.identity().model_fingerprint(), 11u);
  ASSERT_EQ(router_.states.size(), 1u);
  EXPECT_TRUE(router_.states[0].ready());
  EXPECT_EQ(router_.states[0].active_sequences(), 5);
}

TEST_F(ControlNodeTest, ARouterWithAnotherPlanIsTurnedAway) {
  patience_ms_ = 200;
  EXPECT_FALSE(Meet(/*plan_fingerprint=*/23));
  EXPECT_EQ(router_.channel, nullptr);
  EXPECT_TRUE(router_.states.empty());
}

TEST_F(ControlNodeTest, AChangedStateIsPushedBeforeItsNextRefresh) {
  router_.on_up = [this] { loop_.After(130, [this] { node_.active_sequences = 1; }); };
  router_.until = [](const proto::NodeState& state) { return state.active_sequences() == 1; };
  ASSERT_TRUE(Meet());
  EXPECT_EQ(router_.states.size(), 2u) << "an unchanged state was pushed as well";
}

TEST_F(ControlNodeTest, ADrainingNodeSaysSoAtOnceAndIsNotReady) {
  router_.on_up = [this] { node_.Drain(); };
  router_.until = [](const proto::NodeState& state) { return state.draining(); };
  ASSERT_TRUE(Meet());
  EXPECT_FALSE(router_.states.back().ready());
  EXPECT_EQ(node_.Ready().message(), "draining");
}

// A router whose old connection has not been given up yet dials again.
TEST_F(ControlNodeTest, TwoChannelsOfOneRouterHearOfTheStateUntilEachIsClosed) {
  const auto first = std::make_shared<RouterChannel>();
  const auto second = std::make_shared<RouterChannel>();
  ASSERT_EQ(first->peer_boot(), second->peer_boot());
  node_.OnUp(first);
  node_.OnUp(second);
  node_.Drain();
  ASSERT_EQ(first->sent.size(), 2u);
  ASSERT_EQ(second->sent.size(), 2u);
  EXPECT_TRUE(first->sent[1].state().draining());
  EXPECT_TRUE(second->sent[1].state().draining());
  node_.OnDown(second, absl::UnavailableError("closed"));
  node_.Drain();  // pushes once more
  EXPECT_EQ(first->sent.size(), 3u);
  EXPECT_EQ(second->sent.size(), 2u);
}

TEST_F(ControlNodeTest, AnUnhealthyNodeIsNotReady) {
  EXPECT_TRUE(node_.Ready().ok());
  node_.health = absl::UnavailableError("out of order");
  EXPECT_EQ(node_.Ready().message(), "out of order");
  ASSERT_TRUE(Meet());
  EXPECT_FALSE(router_.states.back().ready());
}

TEST_F(ControlNodeTest, MessagesAndTheEndOfARouterReachTheNode) {
  router_.on_up = [this] {
    proto::Envelope cancel;
    cancel.mutable_cancel();
    router_.channel->Send(cancel);
    proto::Envelope strange;
    strange.mutable_granted();
    router_.channel->Send(strange);
    router_.channel->Close(absl::CancelledError("the test is over"));
    loop_.After(100, [this] { loop_.Stop(/*drain_ms=*/0); });
  };
  router_.until = [](const auto&) { return false; };
  ASSERT_TRUE(Meet());
  EXPECT_EQ(node_.calls, (std::vector<std::string>{"start", "cancel", "unknown", "gone"}));
}

TEST_F(ControlNodeTest, StopTellsTheRoutersFirstAndOnlyOnce) {
  ASSERT_TRUE(Meet());
  node_.Stop();
  node_.Stop();
  EXPECT_EQ(node_.calls, (std::vector<std::string>{"start", "gone", "stop"}));
}

TEST(ControlNodeStartTest, ANodeWhoseWorkDoesNotStartIsNeverReady) {
  transport::EventLoop loop;
  IdleNode node(loop);
  EXPECT_EQ(node.Ready().message(), "starting");
  node.start_status = absl::FailedPreconditionError("no such interface");
  EXPECT_EQ(node.Start().message(), "no such interface");
  EXPECT_EQ(node.Ready().message(), "starting");
}

}  // namespace
}  // namespace anchorage::worker
