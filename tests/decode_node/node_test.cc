#include "decode_node/node.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "observe/logging.h"
#include "tests/support/router_channel.h"
#include "tests/support/tiny_model.h"
#include "worker/wire.h"

namespace anchorage::decode {
namespace {

using testing::RouterChannel;

constexpr uint64_t kRequest = 0xabc;

class DecodeNodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    observe::StartLogging("test", observe::LogLevel::kOff);
    settings_.control = "127.0.0.1:0";
    settings_.transport = "tcp";
    model_ = worker::LoadModel(testing::TinyModelPath()).value();
    node_ = DecodeNode::Create(
                settings_, {.data_address = "127.0.0.1:0", .kv_memory_bytes = int64_t{64} << 20},
                model_, loop_, registry_)
                .value();
    ASSERT_TRUE(node_->Start().ok());
  }

  static proto::Attempt Attempt(uint32_t generation) {
    return worker::ToProto(AttemptId{kRequest, generation}, "r");
  }
  void Reserve() {
    proto::Envelope message;
    proto::Reserve& reserve = *message.mutable_reserve();
    *reserve.mutable_attempt() = Attempt(2);
    reserve.set_prompt_tokens(100);
    reserve.set_max_new(10);
    reserve.mutable_sampling()->set_top_p(1);
    *reserve.mutable_identity() = worker::MakeIdentity(*model_.model, settings_.plan);
    node_->OnMessage(router_, message);
  }
  void Renew(uint32_t generation) {
    proto::Envelope message;
    *message.mutable_renew()->mutable_attempt() = Attempt(generation);
    node_->OnMessage(router_, message);
  }

  worker::Settings settings_;
  worker::LoadedModel model_;
  transport::EventLoop loop_;
  observe::MetricsRegistry registry_;
  std::shared_ptr<RouterChannel> router_ = std::make_shared<RouterChannel>();
  std::unique_ptr<DecodeNode> node_;
};

TEST_F(DecodeNodeTest, ARenewalIsAnsweredOnlyForAnAttemptThatIsOver) {
  Reserve();
  ASSERT_EQ(router_->sent.size(), 1u);
  ASSERT_TRUE(router_->sent[0].has_granted());
  EXPECT_EQ(router_->sent[0].granted().lease_ms(), 10'000);
  Renew(/*generation=*/2);
  EXPECT_EQ(router_->sent.size(), 1u);
  Renew(/*generation=*/1);
  ASSERT_EQ(router_->sent.size(), 2u);
  const proto::Ended& ended = router_->sent[1].ended();
  EXPECT_EQ(ended.attempt().request(), kRequest);
  EXPECT_EQ(ended.attempt().generation(), 1u);
  EXPECT_EQ(ended.status(), static_cast<int>(absl::StatusCode::kAborted));
}

TEST(DecodeNodeMetricsTest, TransfersAreLabelledWithTheTransportInUse) {
  worker::Settings settings;
  settings.transport = "ucx";
  const worker::LoadedModel model = worker::LoadModel(testing::TinyModelPath()).value();
  transport::EventLoop loop;
  observe::MetricsRegistry registry;
  const auto node =
      DecodeNode::Create(settings, {.kv_memory_bytes = int64_t{64} << 20}, model, loop, registry);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_THAT(
      registry.Serialize(),
      ::testing::HasSubstr("anchorage_kv_transfer_bytes_total{direction=\"rx\",role=\"decode\","
                           "transport=\"ucx\"} 0\n"));
}

}  // namespace
}  // namespace anchorage::decode
