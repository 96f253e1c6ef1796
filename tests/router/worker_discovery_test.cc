#include "router/worker_discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/status.h"
#include "observe/logging.h"
#include "tests/router/fake_channel.h"

namespace anchorage::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Addresses = std::vector<std::string>;

// What the discovery hands on.
class CountingHandler : public transport::ControlHandler {
 public:
  absl::Status OnHello(const proto::Hello&) override { return FailedPrecondition("not you"); }
  void OnUp(transport::ControlChannelPtr) override { ++ups; }
  void OnMessage(transport::ControlChannelPtr, proto::Envelope) override { ++messages; }
  void OnDown(transport::ControlChannelPtr, absl::Status) override { ++downs; }
  int ups = 0;
  int messages = 0;
  int downs = 0;
};

class WorkerDiscoveryTest : public ::testing::Test {
 protected:
  WorkerDiscoveryTest() { observe::StartLogging("test", observe::LogLevel::kOff); }

  void Start(const std::vector<std::string>& names) {
    discovery_ = std::make_unique<WorkerDiscovery>(
        "decode", names,
        [this](const std::string& name, WorkerDiscovery::Resolved done) {
          asked_.emplace_back(name, std::move(done));
        },
        [this](const std::string& address, transport::ControlHandler& handler) {
          handlers_[address] = &handler;
          dialled_.push_back(address);
          return std::make_unique<Dialer>(this, address);
        },
        &handler_, &metrics_);
    discovery_->Refresh();
  }
  // Answers the oldest question that is open.
  void Answer(const absl::StatusOr<Addresses>& answer) {
    ASSERT_FALSE(asked_.empty());
    const WorkerDiscovery::Resolved done = std::move(asked_.front().second);
    asked_.erase(asked_.begin());
    done(answer);
  }
  void RefreshWith(const absl::StatusOr<Addresses>& answer) {
    discovery_->Refresh();
    Answer(answer);
  }
  void Up(const std::string& address) { handlers_.at(address)->OnUp(channel_); }
  void Down(const std::string& address) {
    handlers_.at(address)->OnDown(channel_, Unavailable("gone"));
  }
  Addresses Dialled() {
    Addresses open;
    for (const auto& [address, handler] : handlers_) open.push_back(address);
    return open;
  }
  double NumDown() {
    return registry_.AddGauge("anchorage_workers", "", {{"role", "decode"}, {"state", "down"}})
        .value();
  }

  struct Dialer : transport::ControlDialer {
    Dialer(WorkerDiscoveryTest* test, std::string address)
        : test(*test), address(std::move(address)) {}
    ~Dialer() override { test.handlers_.erase(address); }
    void Stop(std::function<void()>) override { test.stopped_.push_back(address); }
    WorkerDiscoveryTest& test;
    const std::string address;
  };

  observe::MetricsRegistry registry_;
  RouterMetrics metrics_{&registry_, "tiny"};
  CountingHandler handler_;
  std::shared_ptr<FakeChannel> channel_ =
      std::make_shared<FakeChannel>(proto::ROLE_DECODE, "decode:1");
  std::vector<std::pair<std::string, WorkerDiscovery::Resolved>> asked_;
  std::map<std::string, transport::ControlHandler*> handlers_;  // of addresses that are dialled
  Addresses dialled_;                                           // all that ever were, in order
  Addresses stopped_;
  std::unique_ptr<WorkerDiscovery> discovery_;
};

TEST_F(WorkerDiscoveryTest, DialsEveryAddressOfEveryNameOnce) {
  Start({"pods:1", "127.0.0.9:2"});
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_EQ(asked_[0].first, "127.0.0.9:2");
  Answer(Addresses{"127.0.0.9:2"});
  Answer(Addresses{"10.0.0.1:1", "10.0.0.2:1", "127.0.0.9:2"});
  EXPECT_THAT(dialled_, UnorderedElementsAre("127.0.0.9:2", "10.0.0.1:1", "10.0.0.2:1"));
  EXPECT_THAT(stopped_, IsEmpty());
}

TEST_F(WorkerDiscoveryTest, HandsOnWhatHappensOnTheChannels) {
  Start({"pods:1"});
  Answer(Addresses{"10.0.0.1:1"});
  transport::ControlHandler& connection = *handlers_.at("10.0.0.1:1");
  EXPECT_FALSE(connection.OnHello(proto::Hello()).ok());
  Up("10.0.0.1:1");
  connection.OnMessage(channel_, proto::Envelope());
  Down("10.0.0.1:1");
  EXPECT_EQ(handler_.ups, 1);
  EXPECT_EQ(handler_.messages, 1);
  EXPECT_EQ(handler_.downs, 1);
}

TEST_F(WorkerDiscoveryTest, NoticesNewAddressesAndForgetsVanishedOnes) {
  Start({"pods:1"});
  Answer(Addresses{"10.0.0.1:1", "10.0.0.2:1"});
  RefreshWith(Addresses{"10.0.0.2:1", "10.0.0.3:1"});
  EXPECT_THAT(Dialled(), UnorderedElementsAre("10.0.0.2:1", "10.0.0.3:1"));
  EXPECT_THAT(stopped_, ElementsAre("10.0.0.1:1"));
  EXPECT_EQ(dialled_.size(), 3u);  // what stays is not dialled anew
}

TEST_F(WorkerDiscoveryTest, KeepsAnAddressThatIsUpUntilItGoesDown) {
  Start({"pods:1"});
  Answer(Addresses{"10.0.0.1:1"});
  Up("10.0.0.1:1");
  RefreshWith(Addresses{"10.0.0.2:1"});
  EXPECT_THAT(Dialled(), UnorderedElementsAre("10.0.0.1:1", "10.0.0.2:1"));
  Down("10.0.0.1:1");
  EXPECT_THAT(Dialled(), UnorderedElementsAre("10.0.0.1:1", "10.0.0.2:1"));
  RefreshWith(Addresses{"10.0.0.2:1"});
  EXPECT_THAT(Dialled(), ElementsAre("10.0.0.2:1"));
}

TEST_F(WorkerDiscoveryTest, ANameWithoutAddressesForgetsThemAndAnErrorForgetsNothing) {
  Start({"pods:1"});
  Answer(Addresses{"10.0.0.1:1"});
  RefreshWith(Unavailable("the name server is silent"));
  EXPECT_THAT(Dialled(), ElementsAre("10.0.0.1:1"));
  RefreshWith(NotFound("no such host"));
  EXPECT_THAT(Dialled(), IsEmpty());
  RefreshWith(Addresses{"10.0.0.1:1"});
  EXPECT_THAT(Dialled(), ElementsAre("10.0.0.1:1"));
}

TEST_F(WorkerDiscoveryTest, AsksEachNameOnlyOnceAtATime) {
  Start({"a:1", "b:1"});
  discovery_->Refresh();
  EXPECT_EQ(asked_.size(), 2u);
  Answer(Addresses{"10.0.0.1:1"});
  discovery_->Refresh();
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_EQ(asked_[1].first, "a:1");
}

TEST_F(WorkerDiscoveryTest, CountsWhatIsNotConnectedAsDown) {
  Start({"pods:1", "127.0.0.9:2"});
  EXPECT_EQ(NumDown(), 2);  // nothing is known of either name
  Answer(Addresses{"127.0.0.9:2"});
  Answer(Addresses{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"});
  EXPECT_EQ(NumDown(), 4);
  Up("10.0.0.1:1");
  EXPECT_EQ(NumDown(), 3);
  Down("10.0.0.1:1");
  EXPECT_EQ(NumDown(), 4);
  discovery_->Refresh();
  Answer(Addresses{"127.0.0.9:2"});
  Answer(NotFound("no such host"));
  EXPECT_EQ(NumDown(), 2);  // a name that stands for no node is one that is missing
}

TEST_F(WorkerDiscoveryTest, StoppedItDialsNoMore) {
  Start({"pods:1"});
  Answer(Addresses{"10.0.0.1:1"});
  discovery_->Refresh();
  discovery_->Stop();
  EXPECT_THAT(stopped_, ElementsAre("10.0.0.1:1"));
  Answer(Addresses{"10.0.0.2:1"});  // came too late
  discovery_->Refresh();
  EXPECT_THAT(asked_, IsEmpty());
  EXPECT_THAT(dialled_, ElementsAre("10.0.0.1:1"));
}

}  // namespace
}  // namespace anchorage::router
