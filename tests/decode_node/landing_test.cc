#include "decode_node/landing.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "observe/logging.h"
#include "tests/support/tiny_model.h"

namespace anchorage::decode {
namespace {

using worker::LayerHeader;

constexpr uint64_t kModel = 11;
constexpr uint64_t kPlan = 22;

class SilentListener : public EngineListener {
 public:
  void OnToken(AttemptId, int64_t, int32_t, model::Finish) override {}
  void OnEnded(AttemptId, const absl::Status&, const char*) override {}
  void OnJoin(int64_t) override {}
  void OnStep(int64_t, int64_t) override {}
};

// One attempt has been granted and nothing of it has arrived.
class LandingReceiverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    observe::StartLogging("test", observe::LogLevel::kOff);
    model_ = model::Model::Load(testing::TinyModelPath()).value();
    engine_ = Engine::Create(*model_, {}, {.plan = {}}, Clock::Real(), stream_, listener_).value();
    receiver_.emplace(*engine_, LandingReceiver::Expected{kModel, kPlan}, verifier_, transfers_,
                      metrics_);
    SequenceRequest request;
    request.id = AttemptId{0xabc, 2};
    request.prompt_tokens = 300;
    request.max_new = 4;
    const ReserveAnswer granted = engine_->Reserve(std::move(request));
    ASSERT_TRUE(granted.status.ok()) << granted.status;
    const kv::RequestPlan plan = kv::PlanRequest(model_->geometry(), {}, 300, 4);
    header_ = {.attempt = AttemptId{0xabc, 2},
               .nonce = granted.nonce,
               .model_fingerprint = kModel,
               .plan_fingerprint = kPlan,
               .layer = 0,
               .num_layers = model_->config().num_layers,
               .length = static_cast<uint64_t>(plan.layers[0].region_bytes),
               .packing = kCodePacking};
  }
  void TearDown() override { verifier_.Stop(); }

  absl::StatusOr<transport::Landing> Announce(const LayerHeader& header) {
    const std::string bytes = worker::Serialize(header);
    return receiver_->OnAnnounce(std::as_bytes(std::span(bytes)), header.length);
  }
  // Nothing may land, the reason is told, and it is counted under `counter`.
  void ExpectRefused(const LayerHeader& header, absl::StatusCode code, const char* counter) {
    const double before = Failures(counter);
    const auto landing = Announce(header);
    EXPECT_EQ(landing.status().code(), code) << landing.status();
    EXPECT_FALSE(landing.status().message().empty());
    EXPECT_EQ(Failures(counter), before + 1) << counter;
  }
  double Failures(const std::string& reason) {
    const std::string text = registry_.Serialize();
    const std::string series =
        "anchorage_kv_integrity_failures_total{reason=\"" + reason + "\",role=\"decode\"} ";
    const size_t at = text.find(series);
    return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size()));
  }

  std::unique_ptr<const model::Model> model_;
  kernels::Stream stream_{1};
  SilentListener listener_;
  observe::MetricsRegistry registry_;
  Metrics metrics_{registry_, "tiny"};
  worker::TransferMetrics transfers_{registry_, Clock::Real(), "decode", "rx", "tcp"};
  Verifier verifier_;
  std::unique_ptr<Engine> engine_;
  std::optional<LandingReceiver> receiver_;
  LayerHeader header_;
};

TEST_F(LandingReceiverTest, TakesALayerThatIsWhatWasGranted) {
  const auto landing = Announce(header_);
  ASSERT_TRUE(landing.ok()) << landing.status();
  EXPECT_EQ(landing->region.size(), header_.length);
  receiver_->OnQuiet(landing->token, absl::UnavailableError("over"), nullptr);
}

TEST_F(LandingReceiverTest, RefusesBytesThatAreNoHeader) {
  const std::string junk = "\xFF\xFF junk";
  EXPECT_FALSE(receiver_->OnAnnounce(std::as_bytes(std::span(junk)), 64).ok());
  EXPECT_EQ(Failures("version"), 1);
}

TEST_F(LandingReceiverTest, RefusesAnotherModelPlanOrPacking) {
  LayerHeader other = header_;
  other.model_fingerprint = kModel + 1;
  ExpectRefused(other, absl::StatusCode::kFailedPrecondition, "version");
  other = header_;
  other.plan_fingerprint = kPlan + 1;
  ExpectRefused(other, absl::StatusCode::kFailedPrecondition, "version");
  other = header_;
  other.packing = kernels::CodePacking::kLinear;
  ExpectRefused(other, absl::StatusCode::kFailedPrecondition, "version");
}

TEST_F(LandingReceiverTest, RefusesALengthThatIsNotTheTransports) {
  for (const uint64_t said : {uint64_t{0}, header_.length - 1, header_.length + 1}) {
    LayerHeader other = header_;
    other.length = said;
    const std::string bytes = worker::Serialize(other);
    EXPECT_EQ(
        receiver_->OnAnnounce(std::as_bytes(std::span(bytes)), header_.length).status().code(),
        absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Failures("bounds"), 3);
}

TEST_F(LandingReceiverTest, RefusesLengthsAndLayersThatAreNotThePlans) {
  for (const uint64_t length : {uint64_t{0}, header_.length - 64, header_.length + 64}) {
    LayerHeader other = header_;
    other.length = length;
    ExpectRefused(other, absl::StatusCode::kInvalidArgument, "bounds");
  }
  LayerHeader other = header_;
  other.layer = header_.num_layers;
  ExpectRefused(other, absl::StatusCode::kInvalidArgument, "bounds");
  other = header_;
  other.num_layers += 1;
  ExpectRefused(other, absl::StatusCode::kInvalidArgument, "bounds");
}

TEST_F(LandingReceiverTest, RefusesAForgedNonce) {
  LayerHeader other = header_;
  other.nonce ^= 1;
  ExpectRefused(other, absl::StatusCode::kPermissionDenied, "auth");
}

TEST_F(LandingReceiverTest, RefusesToCloseWhatHasNotArrived) {
  LayerHeader closing = header_;
  closing.closing = true;
  closing.length = 0;
  EXPECT_FALSE(Announce(closing).ok());
}

}  // namespace
}  // namespace anchorage::decode
