// A peer that speaks UCX but not our protocol, or only nearly. It must be refused, in words where
// it can hear them, and the process must live on and serve others.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "observe/logging.h"
#include "tests/transport/recording_receiver.h"
#include "transport/data/ucx/calls.h"
#include "transport/data/ucx/endpoints.h"
#include "transport/data/ucx/message.h"
#include "transport/data/ucx/socket_address.h"
#include "transport/data/ucx/worker.h"
#include "transport/data/verdict.h"

namespace anchorage::transport {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit(10);

class Stranger {
 public:
  explicit Stranger(const std::string& address) : worker_(*UcxWorker::Create("127.0.0.1")) {
    worker_->SetHandler(kReplyMessage, OnReply, this);
    endpoint_ = *endpoints_.Connect(*ResolveSocketAddress(address));
  }
  ~Stranger() {
    endpoints_.BreakAll(absl::CancelledError("over"));
    endpoints_.CloseBroken();
    EXPECT_TRUE(Drive([this] { return calls_.running() == 0; }));
  }

  // How UCX says that it ended.
  ucs_status_t Send(const UcxCalls::Message& message) {
    std::optional<ucs_status_t> sent;
    const ucs_status_t status = calls_.Send(endpoints_.handle(endpoint_), message,
                                            [&sent](ucs_status_t ended) { sent = ended; });
    if (status != UCS_INPROGRESS) return status;
    EXPECT_TRUE(Drive([&sent] { return sent.has_value(); }));
    return sent.value_or(UCS_ERR_TIMED_OUT);
  }

  // The next verdict.
  absl::Status WaitVerdict() {
    if (!Drive([this] { return verdict_.has_value(); })) return Internal("no verdict came");
    return *std::exchange(verdict_, std::nullopt);
  }

 private:
  bool Drive(const std::function<bool()>& until) {
    const auto end = steady_clock::now() + kLimit;
    while (!until() && steady_clock::now() < end) ucp_worker_progress(worker_->handle());
    return until();
  }

  static ucs_status_t OnReply(void* self, const void* header, size_t header_size, void* data,
                              size_t length, const ucp_am_recv_param_t*) {
    const std::optional<ReplyHeader> reply = DecodeReply(header, header_size);
    EXPECT_TRUE(reply.has_value());
    static_cast<Stranger*>(self)->verdict_ =
        VerdictFromWire(reply->code, std::string(static_cast<const char*>(data), length));
    return UCS_OK;
  }

  std::unique_ptr<UcxWorker> worker_;
  UcxCalls calls_;
  Counters counters_;
  UcxEndpoints endpoints_{*worker_, calls_, counters_, [](uint64_t, const absl::Status&) {}};
  UcxEndpoints::Serial endpoint_ = 0;
  std::optional<absl::Status> verdict_;
};

class UcxStrangerTest : public testing::Test {
 protected:
  void SetUp() override {
    observe::StartLogging("test", observe::LogLevel::kOff);
    DataPlaneOptions options;
    options.listen = "127.0.0.1:0";
    options.receiver = &receiver_;
    plane_ = *MakeDataPlane("ucx", options);
    stranger_.emplace(plane_->listen_address());
  }

  // Whatever the stranger has done: nothing has landed, and it disturbs neither itself nor others.
  void TearDown() override {
    EXPECT_EQ(receiver_.size(), 0u);
    const std::string header = Header({.id = 99, .length = payload_.size()});
    EXPECT_EQ(stranger_->Send(Layer(header)), UCS_OK);
    EXPECT_TRUE(stranger_->WaitVerdict().ok());
    const std::unique_ptr<DataPlane> sender =
        *MakeDataPlane("ucx", {.interface_host = "127.0.0.1"});
    SendResult result;
    sender->Send(plane_->listen_address(), "good", payload_, result.Callback());
    EXPECT_TRUE(result.Wait().ok());
    EXPECT_EQ(receiver_.size(), 2u);
    EXPECT_TRUE(receiver_.entry(2).region == payload_);
    sender->Shutdown();
    stranger_.reset();
    plane_->Shutdown();
  }

  static std::string Header(TransferPrefix prefix, const std::string& header = "layer") {
    prefix.header_bytes = static_cast<uint16_t>(header.size());
    return EncodeTransfer(prefix, header);
  }
  // As our own senders do it.
  UcxCalls::Message Layer(const std::string& header) const {
    return {.id = kTransferMessage,
            .header = header,
            .payload = payload_,
            .rendezvous = true,
            .answerable = true};
  }

  const std::vector<std::byte> payload_ = Pattern(5'000);
  RecordingReceiver receiver_;
  std::unique_ptr<DataPlane> plane_;
  std::optional<Stranger> stranger_;
};

TEST_F(UcxStrangerTest, ALayerThatComesEagerlyIsRefusedWithTheReason) {
  const std::string header = Header({.id = 1, .length = payload_.size()});
  UcxCalls::Message layer = Layer(header);
  layer.rendezvous = false;
  EXPECT_EQ(stranger_->Send(layer), UCS_OK);  // UCX cannot say no to what has come
  EXPECT_EQ(stranger_->WaitVerdict(), Invalid("a payload that came without being asked"));
}

TEST_F(UcxStrangerTest, AnEmptyMessageByRendezvousIsRefusedWithTheReason) {
  const std::string header = Header({.id = 1, .length = 0});
  UcxCalls::Message layer = Layer(header);
  layer.payload = {};
  EXPECT_EQ(stranger_->Send(layer), UCS_ERR_REJECTED);
  EXPECT_EQ(stranger_->WaitVerdict(), Invalid("a payload that came without being asked"));
}

TEST_F(UcxStrangerTest, ALengthThatIsNotThePayloadsIsRefusedWithTheReason) {
  for (const uint64_t length : {uint64_t{0}, uint64_t{4'999}, uint64_t{5'001}, kMaxTransferBytes}) {
    const std::string header = Header({.id = 1, .length = length});
    EXPECT_EQ(stranger_->Send(Layer(header)), UCS_ERR_REJECTED) << length;
    EXPECT_EQ(stranger_->WaitVerdict(), Invalid("a header that says %d bytes before 5000", length));
  }
}

TEST_F(UcxStrangerTest, AnEagerMessageOfAnotherLengthIsRefusedWithTheReason) {
  const std::string header = Header({.id = 1, .length = 7});
  UcxCalls::Message layer = Layer(header);
  layer.rendezvous = false;
  layer.payload = std::span(payload_).first(6);
  EXPECT_EQ(stranger_->Send(layer), UCS_OK);
  EXPECT_EQ(stranger_->WaitVerdict(), Invalid("a header that says 7 bytes before 6"));
}

TEST_F(UcxStrangerTest, HeadersThatAreNotOursAreRefused) {
  TransferPrefix another_magic{.id = 1, .length = payload_.size()};
  another_magic.magic = 0x12345678;
  TransferPrefix another_version{.id = 1, .length = payload_.size()};
  another_version.version = 2;
  const TransferPrefix good{.id = 1, .length = payload_.size()};
  for (const std::string& header : {Header(another_magic), Header(another_version),
                                    Header({.id = 1, .length = kMaxTransferBytes + 1}),
                                    Header(good, std::string(kMaxHeaderBytes + 1, 'h')),
                                    Header(good) + "more", std::string("short"), std::string()}) {
    EXPECT_EQ(stranger_->Send(Layer(header)), UCS_ERR_REJECTED);
    UcxCalls::Message eager = Layer(header);
    eager.rendezvous = false;
    EXPECT_EQ(stranger_->Send(eager), UCS_OK);
  }
}

TEST_F(UcxStrangerTest, WhatCannotBeAnsweredIsRefused) {
  const std::string header = Header({.id = 1, .length = payload_.size()});
  UcxCalls::Message layer = Layer(header);
  layer.answerable = false;
  EXPECT_EQ(stranger_->Send(layer), UCS_ERR_REJECTED);
}

TEST_F(UcxStrangerTest, VerdictsThatNobodyWaitsForAreIgnored) {
  const ReplyHeader verdict{.code = 0, .id = 1, .sender = 1};
  const std::string header(reinterpret_cast<const char*>(&verdict), sizeof(verdict));
  EXPECT_EQ(stranger_->Send(
                {.id = kReplyMessage, .header = header, .payload = std::span(payload_).first(10)}),
            UCS_OK);  // in form, but of no transfer
  for (const bool rendezvous : {false, true}) {
    for (const std::string& bytes : {header, header + "x", std::string()}) {
      const ucs_status_t sent = stranger_->Send(
          {.id = kReplyMessage, .header = bytes, .payload = payload_, .rendezvous = rendezvous});
      EXPECT_EQ(sent, rendezvous ? UCS_ERR_REJECTED : UCS_OK);
    }
  }
}

}  // namespace
}  // namespace anchorage::transport
