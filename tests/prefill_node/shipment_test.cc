#include "prefill_node/shipment.h"

#include <deque>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kv/layer_cache.h"
#include "worker/layer_header.h"

namespace anchorage::prefill {
namespace {

// Keeps what was sent until the test decides what becomes of it.
class FakePlane : public transport::DataPlane {
 public:
  struct Sent {
    std::string address;
    worker::LayerHeader header;
    std::span<const std::byte> payload;
    std::function<void(absl::Status)> done;
  };

  const char* name() const override { return "fake"; }
  std::string listen_address() const override { return ""; }
  std::string Describe() const override { return "fake"; }
  SendId Send(const std::string& address, std::string header, std::span<const std::byte> payload,
              std::function<void(absl::Status)> done) override {
    const auto parsed = worker::ParseLayerHeader(std::as_bytes(std::span(header)));
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (shut_down) done(absl::CancelledError("the data plane was shut down"));
    if (!shut_down) sent.push_back({address, *parsed, payload, std::move(done)});
    return ++last_id;
  }
  void CancelSend(SendId) override { ADD_FAILURE() << "a shipment cancels nobody's send"; }
  void CloseLanding(uint64_t) override {}
  transport::DataPlaneStats stats() const override { return {}; }
  void Shutdown() override {}

  // Completes the oldest send.
  void Complete(const absl::Status& status) {
    Sent first = std::move(sent.front());
    sent.pop_front();
    first.done(status);
  }

  std::deque<Sent> sent;
  bool shut_down = false;
  SendId last_id = 0;
};

class ShipmentTest : public ::testing::Test {
 protected:
  std::shared_ptr<Shipment> Ship(int64_t num_layers) {
    return std::make_shared<Shipment>(
        plane_, metrics_, Sender{7, 8, 9}, AttemptId{0xabc, 2},
        Destination{"10.0.0.7:7101", 55, kernels::CodePacking::kPlanar}, num_layers,
        [this](const absl::Status& status) { ends_.push_back(status); });
  }

  static kv::CompressedLayer Layer(int layer, const std::shared_ptr<void>& charge = nullptr) {
    kv::CompressedLayer cache;
    cache.layer = layer;
    cache.region = AlignedBuffer(640);
    cache.region.data()[5] = std::byte{42};
    cache.checksum = kv::Checksum(cache.region.span());
    cache.charge = charge;
    return cache;
  }

  // The counter's line as it is exported.
  std::string ExposedSeconds() const {
    const std::string text = registry_.Serialize();
    const size_t at = text.find("\nanchorage_kv_transfer_exposed_seconds_total{");
    EXPECT_NE(at, std::string::npos);
    return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  }

  observe::MetricsRegistry registry_;
  worker::TransferMetrics metrics_{registry_, Clock::Real(), "prefill", "tx", "tcp"};
  FakePlane plane_;
  std::vector<absl::Status> ends_;
};

TEST_F(ShipmentTest, SendsEachLayerAtOnceAndClosesAfterTheLastVerdict) {
  const auto shipment = Ship(2);
  ASSERT_TRUE(shipment->OnLayer(0, Layer(0)).ok());
  ASSERT_EQ(plane_.sent.size(), 1u);
  const worker::LayerHeader& header = plane_.sent[0].header;
  EXPECT_EQ(plane_.sent[0].address, "10.0.0.7:7101");
  EXPECT_EQ(header.attempt, (AttemptId{0xabc, 2}));
  EXPECT_EQ(header.nonce, 55u);
  EXPECT_EQ(header.length, 640u);
  EXPECT_EQ(header.checksum, kv::Checksum(plane_.sent[0].payload));
  EXPECT_EQ(header.num_layers, 2);
  EXPECT_EQ(header.packing, kernels::CodePacking::kPlanar);
  ASSERT_TRUE(shipment->OnLayer(1, Layer(1)).ok());
  plane_.Complete(absl::OkStatus());
  shipment->Close(17);
  ASSERT_EQ(plane_.sent.size(), 1u) << "closed before layer 1 was verified";
  plane_.Complete(absl::OkStatus());
  ASSERT_EQ(plane_.sent.size(), 1u);
  EXPECT_TRUE(plane_.sent[0].header.closing);
  EXPECT_EQ(plane_.sent[0].header.first_token, 17);
  EXPECT_TRUE(plane_.sent[0].payload.empty());
  EXPECT_TRUE(ends_.empty());
  plane_.Complete(absl::OkStatus());
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_TRUE(ends_[0].ok());
}

TEST_F(ShipmentTest, AFailedLayerEndsItOnceAndRefusesTheRest) {
  const auto shipment = Ship(3);
  ASSERT_TRUE(shipment->OnLayer(0, Layer(0)).ok());
  ASSERT_TRUE(shipment->OnLayer(1, Layer(1)).ok());
  plane_.Complete(absl::UnavailableError("peer gone"));
  plane_.Complete(absl::UnavailableError("peer gone"));
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_[0].code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(shipment->OnLayer(2, Layer(2)).ok());
  shipment->Close(1);
  EXPECT_TRUE(plane_.sent.empty());
  EXPECT_EQ(ends_.size(), 1u);
}

TEST_F(ShipmentTest, WhatWasExposedIsCountedOnceHoweverOftenItFails) {
  const auto shipment = Ship(2);
  ASSERT_TRUE(shipment->OnLayer(0, Layer(0)).ok());
  ASSERT_TRUE(shipment->OnLayer(1, Layer(1)).ok());
  shipment->Close(1);
  plane_.Complete(absl::UnavailableError("peer gone"));
  ASSERT_EQ(ends_.size(), 1u);
  const int64_t exposed_ns = shipment->exposed_ns();
  const std::string counted = ExposedSeconds();
  const int64_t now = Clock::Real().NowNs();
  while (Clock::Real().NowNs() == now) continue;
  shipment->Fail(absl::CancelledError("client left"));
  plane_.Complete(absl::UnavailableError("peer gone"));
  EXPECT_EQ(ends_.size(), 1u);
  EXPECT_EQ(shipment->exposed_ns(), exposed_ns);
  EXPECT_EQ(ExposedSeconds(), counted);
}

TEST_F(ShipmentTest, ARefusedClosingMessageIsTheEnd) {
  const auto shipment = Ship(1);
  ASSERT_TRUE(shipment->OnLayer(0, Layer(0)).ok());
  shipment->Close(3);
  plane_.Complete(absl::OkStatus());
  shipment->Fail(absl::CancelledError("too late: the decode node decides"));
  EXPECT_TRUE(ends_.empty());
  plane_.Complete(absl::AbortedError("ended there"));
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_[0].code(), absl::StatusCode::kAborted);
}

TEST_F(ShipmentTest, APlaneThatHasBeenShutDownEndsIt) {
  const auto shipment = Ship(2);
  ASSERT_TRUE(shipment->OnLayer(0, Layer(0)).ok());
  plane_.shut_down = true;  // from now on it answers from inside Send
  ASSERT_TRUE(shipment->OnLayer(1, Layer(1)).ok());
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_[0].code(), absl::StatusCode::kCancelled);
}

TEST_F(ShipmentTest, APlaneThatHasBeenShutDownAnswersTheClosingMessage) {
  const auto shipment = Ship(1);
  ASSERT_TRUE(shipment->OnLayer(0, Layer(0)).ok());
  plane_.shut_down = true;
  shipment->Close(3);
  plane_.Complete(absl::OkStatus());
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_[0].code(), absl::StatusCode::kCancelled);
}

TEST_F(ShipmentTest, KeepsALayerUntilTheTransportIsQuietEvenAfterItFailed) {
  auto shipment = Ship(2);
  auto charge = std::make_shared<int>(1);
  ASSERT_TRUE(shipment->OnLayer(0, Layer(0, charge)).ok());
  shipment->Fail(absl::CancelledError("client left"));
  ASSERT_EQ(ends_.size(), 1u);
  shipment.reset();
  EXPECT_EQ(charge.use_count(), 2);
  EXPECT_EQ(plane_.sent[0].payload[5], std::byte{42});
  plane_.Complete(absl::OkStatus());
  EXPECT_EQ(charge.use_count(), 1);
}

}  // namespace
}  // namespace anchorage::prefill
