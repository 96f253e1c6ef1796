// What every data backend owes its users, whatever moves the bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "observe/logging.h"
#include "tests/support/sanitized.h"
#include "tests/transport/process_facts.h"
#include "tests/transport/recording_receiver.h"
#include "transport/data/data_plane.h"

namespace anchorage::transport {
namespace {

using std::chrono::milliseconds;

// Long enough on loopback to be caught in the middle.
constexpr size_t kLong = (kSanitized ? 16 : 64) << 20;

// Longer than a transfer that is to end may run on while nothing moves.
constexpr milliseconds kBeyondGrace(800);

// Holds one thread until another lets it go.
class Hold {
 public:
  void Here() {
    here_.set_value();
    released_.get_future().wait();
  }
  void WaitUntilHere() { here_.get_future().wait(); }
  void Release() { released_.set_value(); }

 private:
  std::promise<void> here_;
  std::promise<void> released_;
};

class DataPlaneContractTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { observe::StartLogging("test", observe::LogLevel::kError); }
  void TearDown() override {
    if (sender_) sender_->Shutdown();
    if (receiving_plane_) receiving_plane_->Shutdown();
    EXPECT_TRUE(receiver_.broke_no_rule());
  }

  std::unique_ptr<DataPlane> MakeReceiving(const std::string& listen = "127.0.0.1:0") {
    DataPlaneOptions options;
    options.listen = listen;
    options.receiver = &receiver_;
    absl::StatusOr<std::unique_ptr<DataPlane>> plane = MakeDataPlane(GetParam(), options);
    EXPECT_TRUE(plane.ok()) << plane.status();
    return *std::move(plane);
  }
  std::unique_ptr<DataPlane> MakeSending(int64_t stall_timeout_ms = 10'000) {
    DataPlaneOptions options;
    options.interface_host = "127.0.0.1";
    options.stall_timeout_ms = stall_timeout_ms;
    absl::StatusOr<std::unique_ptr<DataPlane>> plane = MakeDataPlane(GetParam(), options);
    EXPECT_TRUE(plane.ok()) << plane.status();
    return *std::move(plane);
  }
  void StartPair(int64_t stall_timeout_ms = 10'000) {
    receiving_plane_ = MakeReceiving();
    sender_ = MakeSending(stall_timeout_ms);
    address_ = receiving_plane_->listen_address();
  }

  absl::Status SendAndWait(const std::string& header, std::span<const std::byte> payload) {
    SendResult result;
    sender_->Send(address_, header, payload, result.Callback());
    return result.Wait();
  }

  // Returns when the transport has whatever of the earlier sends it takes at a time: its thread
  // looks at their address before it looks at another, which it sees here for the first time.
  void WaitUntilHandedOver() {
    RecordingReceiver other_receiver;
    DataPlaneOptions options;
    options.listen = "127.0.0.1:0";
    options.receiver = &other_receiver;
    const absl::StatusOr<std::unique_ptr<DataPlane>> other = MakeDataPlane(GetParam(), options);
    ASSERT_TRUE(other.ok()) << other.status();
    SendResult result;
    sender_->Send((*other)->listen_address(), "handed over", {}, result.Callback());
    EXPECT_TRUE(result.Wait().ok());
    (*other)->Shutdown();
  }

  // Nothing may write to a region that was called quiet.
  void ExpectStaysQuiet(uint64_t token) {
    std::vector<std::byte>& region = receiver_.entry(token).region;
    std::fill(region.begin(), region.end(), std::byte{0xEE});
    std::this_thread::sleep_for(milliseconds(150));
    EXPECT_TRUE(std::all_of(region.begin(), region.end(),
                            [](std::byte byte) { return byte == std::byte{0xEE}; }));
  }

  RecordingReceiver receiver_;
  std::unique_ptr<DataPlane> receiving_plane_;
  std::unique_ptr<DataPlane> sender_;
  std::string address_;
};

TEST_P(DataPlaneContractTest, CarriesEverySizeUnchanged) {
  StartPair();
  size_t sent = 0;
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{4095}, size_t{65535}, size_t{65536},
        size_t{65537}, size_t{1} << 20, (size_t{4} << 20) + 1}) {
    const std::vector<std::byte> payload = Pattern(size, static_cast<uint32_t>(size));
    const std::string header = "size " + std::to_string(size);
    ASSERT_TRUE(SendAndWait(header, payload).ok()) << size;
    const RecordingReceiver::Entry& entry = receiver_.entry(++sent);
    EXPECT_EQ(entry.header, header);
    EXPECT_TRUE(entry.landed.ok());
    EXPECT_TRUE(entry.region == payload) << size;
  }
  EXPECT_GT(sender_->stats().sent_bytes, 5 << 20);
  EXPECT_GT(receiving_plane_->stats().received_bytes, 5 << 20);
  EXPECT_EQ(sender_->stats().sends_in_flight, 0);
  EXPECT_EQ(receiving_plane_->stats().landings_in_flight, 0);
}

TEST_P(DataPlaneContractTest, HeadersOfEverySizeUpToTheLimit) {
  StartPair();
  const std::vector<std::byte> payload = Pattern(100);
  uint64_t token = 0;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{511}, kMaxHeaderBytes}) {
    const std::string header(size, 'h');
    EXPECT_TRUE(SendAndWait(header, payload).ok());
    EXPECT_EQ(receiver_.entry(++token).header, header);
    EXPECT_TRUE(SendAndWait(header, {}).ok());
    EXPECT_EQ(receiver_.entry(++token).header, header);
  }
}

TEST_P(DataPlaneContractTest, HeaderOrPayloadBeyondTheLimitIsInvalid) {
  StartPair();
  const std::vector<std::byte> payload = Pattern(100);
  EXPECT_EQ(SendAndWait(std::string(kMaxHeaderBytes + 1, 'h'), payload).code(),
            absl::StatusCode::kInvalidArgument);
  const std::span<const std::byte> huge(payload.data(), kMaxTransferBytes + 1);
  EXPECT_EQ(SendAndWait("huge", huge).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(SendAndWait("good", payload).ok());
  EXPECT_EQ(receiver_.size(), 1u);
}

TEST_P(DataPlaneContractTest, ManyInFlightAreAnnouncedInOrder) {
  StartPair();
  constexpr size_t kCount = 200;
  const std::vector<std::byte> payload = Pattern(200'000);
  std::vector<SendResult> results(kCount);
  std::vector<std::string> headers;
  for (size_t i = 0; i < kCount; ++i) {
    headers.push_back("n" + std::to_string(i));
    const std::span<const std::byte> part(payload.data(), i % 7 == 0 ? 0 : payload.size() - i);
    sender_->Send(address_, headers.back(), part, results[i].Callback());
  }
  for (SendResult& result : results) EXPECT_TRUE(result.Wait().ok());
  EXPECT_EQ(receiver_.headers(), headers);
  for (uint64_t token = 1; token <= kCount; ++token) {
    const std::vector<std::byte>& region = receiver_.entry(token).region;
    EXPECT_TRUE(std::equal(region.begin(), region.end(), payload.begin()));
  }
}

TEST_P(DataPlaneContractTest, SendsFromManyThreadsAllArrive) {
  StartPair();
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  const std::vector<std::byte> payload = Pattern(10'000);
  std::vector<std::vector<SendResult>> results(kThreads, std::vector<SendResult>(kEach));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    for (SendResult& result : results[t]) result = SendResult();
    threads.emplace_back([&, t] {
      for (SendResult& result : results[t]) {
        sender_->Send(address_, "x", payload, result.Callback());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& of_thread : results) {
    for (SendResult& result : of_thread) EXPECT_TRUE(result.Wait().ok());
  }
  EXPECT_EQ(receiver_.size(), static_cast<size_t>(kThreads * kEach));
}

TEST_P(DataPlaneContractTest, ASendFromACallbackGoesBeforeThoseThatFollowIt) {
  StartPair();
  const std::vector<std::byte> payload = Pattern(100);
  SendResult first;
  SendResult second;
  std::promise<void> first_sent;
  std::promise<void> second_sent;
  sender_->Send(address_, "begin", payload, [&](absl::Status) {
    sender_->Send(address_, "first", payload, first.Callback());
    first_sent.set_value();
    second_sent.get_future().wait();
  });
  first_sent.get_future().wait();
  sender_->Send(address_, "second", payload, second.Callback());
  second_sent.set_value();
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(second.Wait().ok());
  EXPECT_EQ(receiver_.headers(), (std::vector<std::string>{"begin", "first", "second"}));
}

TEST_P(DataPlaneContractTest, RefusalReachesTheSenderWithCodeAndMessage) {
  receiver_.judge = [](const std::string& header, size_t) {
    return header == "bad" ? absl::ResourceExhaustedError("no such lease") : absl::OkStatus();
  };
  StartPair();
  const std::vector<std::byte> payload = Pattern(3 << 20);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(SendAndWait("bad", payload), absl::ResourceExhaustedError("no such lease"));
    EXPECT_EQ(SendAndWait("bad", {}), absl::ResourceExhaustedError("no such lease"));
    EXPECT_TRUE(SendAndWait("good", payload).ok());  // on the same connection
  }
  EXPECT_EQ(receiver_.size(), 3u);
  EXPECT_EQ(sender_->stats().open_endpoints, 1);
}

TEST_P(DataPlaneContractTest, RefusalsAmongAcceptedOnesDisturbNone) {
  receiver_.judge = [](const std::string& header, size_t) {
    return header == "bad" ? absl::FailedPreconditionError("stale") : absl::OkStatus();
  };
  StartPair();
  const std::vector<std::byte> payload = Pattern(1 << 20);
  std::vector<SendResult> good(20);
  std::vector<SendResult> bad(20);
  for (int i = 0; i < 20; ++i) {
    sender_->Send(address_, "good", payload, good[i].Callback());
    sender_->Send(address_, "bad", payload, bad[i].Callback());
  }
  for (SendResult& result : good) EXPECT_TRUE(result.Wait().ok());
  for (SendResult& result : bad) EXPECT_EQ(result.Wait(), absl::FailedPreconditionError("stale"));
}

TEST_P(DataPlaneContractTest, VerdictReachesTheSender) {
  receiver_.verdict = [](const RecordingReceiver::Entry&) {
    return absl::DataLossError("checksum of layer 3");
  };
  StartPair();
  EXPECT_EQ(SendAndWait("x", Pattern(100'000)), absl::DataLossError("checksum of layer 3"));
  EXPECT_EQ(SendAndWait("x", {}), absl::DataLossError("checksum of layer 3"));
}

TEST_P(DataPlaneContractTest, VerdictMayComeLaterFromAnotherThread) {
  receiver_.verdict = [](const RecordingReceiver::Entry&) { return std::nullopt; };
  StartPair();
  const std::vector<std::byte> payload = Pattern(100'000);
  SendResult result;
  sender_->Send(address_, "x", payload, result.Callback());
  ASSERT_TRUE(receiver_.WaitQuiet(1));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(result.count(), 0);  // not before the verdict
  std::thread([&] { receiver_.entry(1).reply(absl::OkStatus()); }).join();
  EXPECT_TRUE(result.Wait().ok());
}

TEST_P(DataPlaneContractTest, LongVerdictMessagesAreCut) {
  receiver_.verdict = [](const RecordingReceiver::Entry&) {
    return absl::DataLossError(std::string(100'000, 'm'));
  };
  StartPair();
  const absl::Status status = SendAndWait("x", Pattern(100));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_GE(status.message().size(), 500u);
  EXPECT_LE(status.message().size(), 1024u);
}

TEST_P(DataPlaneContractTest, RegionOfTheWrongSizeIsRefused) {
  class WrongSize : public RecordingReceiver {
   public:
    absl::StatusOr<Landing> OnAnnounce(std::span<const std::byte> header, size_t length) override {
      absl::StatusOr<Landing> landing = RecordingReceiver::OnAnnounce(header, length);
      landing->region = landing->region.first(length - 1);
      return landing;
    }
  } receiver;
  DataPlaneOptions options;
  options.listen = "127.0.0.1:0";
  options.receiver = &receiver;
  receiving_plane_ = *MakeDataPlane(GetParam(), options);
  sender_ = MakeSending();
  address_ = receiving_plane_->listen_address();
  EXPECT_EQ(SendAndWait("x", Pattern(1000)).code(), absl::StatusCode::kInternal);
  ASSERT_TRUE(receiver.WaitQuiet(1));
  EXPECT_FALSE(receiver.entry(1).landed.ok());
  receiving_plane_->Shutdown();
}

TEST_P(DataPlaneContractTest, CancelledSendEndsOnBothSides) {
  StartPair();
  std::vector<std::byte> payload = Pattern(kLong);
  SendResult result;
  const DataPlane::SendId id = sender_->Send(address_, "x", payload, result.Callback());
  ASSERT_TRUE(receiver_.WaitAnnounced(1));
  sender_->CancelSend(id);
  const absl::Status status = result.Wait();
  // It may have been over before the cancel came; then it must have arrived whole.
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  }
  std::fill(payload.begin(), payload.end(), std::byte{0});  // ours again
  ASSERT_TRUE(receiver_.WaitQuiet(1));
  if (status.ok()) {
    EXPECT_TRUE(receiver_.entry(1).region == Pattern(kLong));
  }
  ExpectStaysQuiet(1);
  EXPECT_EQ(result.count(), 1);
  EXPECT_TRUE(SendAndWait("next", Pattern(1000)).ok());
}

TEST_P(DataPlaneContractTest, CancelBeforeAnythingIsSentAndOfUnknownIds) {
  StartPair();
  const std::vector<std::byte> payload = Pattern(1000);
  SendResult result;
  const DataPlane::SendId id = sender_->Send(address_, "x", payload, result.Callback());
  sender_->CancelSend(id);
  sender_->CancelSend(id);
  sender_->CancelSend(id + 1000);
  const absl::Status status = result.Wait();
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kCancelled) << status;
  EXPECT_TRUE(SendAndWait("next", payload).ok());
  EXPECT_EQ(result.count(), 1);
}

TEST_P(DataPlaneContractTest, CancelDisturbsNoNeighbour) {
  StartPair();
  const std::vector<std::byte> large = Pattern(8 << 20);
  std::vector<SendResult> kept(8);
  std::vector<SendResult> cancelled(8);
  std::vector<DataPlane::SendId> ids;
  for (int i = 0; i < 8; ++i) {
    ids.push_back(sender_->Send(address_, "cancelled", large, cancelled[i].Callback()));
    sender_->Send(address_, "kept", large, kept[i].Callback());
  }
  for (const DataPlane::SendId id : ids) sender_->CancelSend(id);
  for (SendResult& result : kept) EXPECT_TRUE(result.Wait().ok());
  for (SendResult& result : cancelled) {
    const absl::Status status = result.Wait();
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kCancelled) << status;
  }
}

// While the receiver's thread is held, nothing moves on the link for longer than a transfer that is
// to end is given.
TEST_P(DataPlaneContractTest, CancelOnALinkThatStandsStillDisturbsNoNeighbour) {
  Hold held;
  receiver_.judge = [&](const std::string& header, size_t) {
    if (header == "hold") held.Here();
    return absl::OkStatus();
  };
  StartPair();
  const std::vector<std::byte> payload = Pattern(1 << 20);
  ASSERT_TRUE(SendAndWait("first", payload).ok());
  std::vector<SendResult> kept(10);
  SendResult cancelled;
  sender_->Send(address_, "hold", payload, kept[0].Callback());
  held.WaitUntilHere();
  const DataPlane::SendId id = sender_->Send(address_, "cancelled", payload, cancelled.Callback());
  for (size_t i = 1; i < kept.size(); ++i) {  // some beside it in the transport, the rest behind
    sender_->Send(address_, "kept", payload, kept[i].Callback());
  }
  WaitUntilHandedOver();
  sender_->CancelSend(id);
  std::this_thread::sleep_for(kBeyondGrace);
  held.Release();
  for (SendResult& result : kept) EXPECT_TRUE(result.Wait().ok());
  const absl::Status status = cancelled.Wait();  // OK: it arrived all the same
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kCancelled) << status;
  ASSERT_TRUE(receiver_.WaitQuiet(receiver_.size()));
  for (int i = 0; i < 400 && sender_->stats().open_endpoints > 1; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(sender_->stats().open_endpoints, 1);
}

TEST_P(DataPlaneContractTest, CancelledSendsEndAlsoOnALinkThatStandsStill) {
  Hold held;
  receiver_.judge = [&](const std::string& header, size_t) {
    if (header == "hold") held.Here();
    return absl::OkStatus();
  };
  StartPair();
  const std::vector<std::byte> payload = Pattern(1 << 20);
  ASSERT_TRUE(SendAndWait("first", payload).ok());
  std::vector<SendResult> cancelled(8);  // some in the transport, the rest behind them
  std::vector<DataPlane::SendId> ids;
  for (size_t i = 0; i < cancelled.size(); ++i) {
    const char* header = i == 0 ? "hold" : "cancelled";
    ids.push_back(sender_->Send(address_, header, payload, cancelled[i].Callback()));
  }
  held.WaitUntilHere();
  WaitUntilHandedOver();
  SendResult kept;
  sender_->Send(address_, "kept", payload, kept.Callback());
  for (const DataPlane::SendId id : ids) sender_->CancelSend(id);
  for (SendResult& result : cancelled) {
    EXPECT_EQ(result.Wait().code(), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(kept.count(), 0);
  held.Release();
  EXPECT_TRUE(kept.Wait().ok());
}

TEST_P(DataPlaneContractTest, ClosedLandingOnALinkThatStandsStillDisturbsNoNeighbour) {
  receiver_.verdict = [](const RecordingReceiver::Entry& entry) -> std::optional<absl::Status> {
    if (entry.header == "hold") return std::nullopt;
    return absl::OkStatus();
  };
  StartPair();
  const std::vector<std::byte> payload = Pattern(kLong);
  ASSERT_TRUE(SendAndWait("first", Pattern(100)).ok());
  Hold held;
  sender_->Send(address_, "hold", {}, [&](const absl::Status&) { held.Here(); });
  SendResult closed;
  SendResult kept;
  sender_->Send(address_, "closed", payload, closed.Callback());
  sender_->Send(address_, "kept", payload, kept.Callback());
  ASSERT_TRUE(receiver_.WaitAnnounced(4));
  ASSERT_TRUE(receiver_.WaitQuiet(2));
  receiver_.entry(2).reply(absl::OkStatus());  // now the sender's thread stands still
  held.WaitUntilHere();
  receiving_plane_->CloseLanding(3);
  std::this_thread::sleep_for(kBeyondGrace);
  held.Release();
  EXPECT_TRUE(kept.Wait().ok());
  ASSERT_TRUE(receiver_.WaitQuiet(4));
  EXPECT_EQ(closed.Wait().ok(), receiver_.entry(3).landed.ok());
  EXPECT_TRUE(receiver_.entry(4).region == payload);
}

TEST_P(DataPlaneContractTest, ClosedLandingIsQuietAndTheSenderLearnsOfIt) {
  StartPair();
  const std::vector<std::byte> payload = Pattern(kLong);
  SendResult result;
  sender_->Send(address_, "x", payload, result.Callback());
  ASSERT_TRUE(receiver_.WaitAnnounced(1));
  receiving_plane_->CloseLanding(1);
  ASSERT_TRUE(receiver_.WaitQuiet(1));
  const absl::Status landed = receiver_.entry(1).landed;
  ExpectStaysQuiet(1);
  const absl::Status status = result.Wait();
  EXPECT_EQ(status.ok(), landed.ok()) << status << " " << landed;
  receiving_plane_->CloseLanding(1);   // over already
  receiving_plane_->CloseLanding(99);  // never was
  EXPECT_TRUE(SendAndWait("next", Pattern(1000)).ok());
}

TEST_P(DataPlaneContractTest, ReceiverGoneInTheMiddleIsUnavailable) {
  StartPair();
  const std::vector<std::byte> payload = Pattern(kLong);
  SendResult result;
  sender_->Send(address_, "x", payload, result.Callback());
  ASSERT_TRUE(receiver_.WaitAnnounced(1));
  receiving_plane_->Shutdown();
  ASSERT_TRUE(receiver_.WaitQuiet(1));
  const absl::Status status = result.Wait();
  if (!receiver_.entry(1).landed.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  }
  ExpectStaysQuiet(1);
  EXPECT_EQ(SendAndWait("nobody", payload).code(), absl::StatusCode::kUnavailable);
}

TEST_P(DataPlaneContractTest, SenderGoneInTheMiddleEndsTheLanding) {
  StartPair();
  const std::vector<std::byte> payload = Pattern(kLong);
  SendResult result;
  sender_->Send(address_, "x", payload, result.Callback());
  ASSERT_TRUE(receiver_.WaitAnnounced(1));
  sender_->Shutdown();
  EXPECT_EQ(result.count(), 1);  // before Shutdown returned
  ASSERT_TRUE(receiver_.WaitQuiet(1));
  ExpectStaysQuiet(1);
  EXPECT_EQ(receiving_plane_->stats().landings_in_flight, 0);
}

TEST_P(DataPlaneContractTest, UnknownAddressesFailAndDisturbNoOther) {
  StartPair();
  const std::vector<std::byte> payload = Pattern(1000);
  const std::string good = address_;
  for (const char* bad : {"127.0.0.1:1", "nonsense", "127.0.0.1:99999", "", "127.0.0.1:0"}) {
    address_ = bad;
    const absl::Status status = SendAndWait("x", payload);
    EXPECT_TRUE(status.code() == absl::StatusCode::kUnavailable ||
                status.code() == absl::StatusCode::kInvalidArgument)
        << bad << ": " << status;
    address_ = good;
    EXPECT_TRUE(SendAndWait("y", payload).ok());
  }
}

TEST_P(DataPlaneContractTest, NamesAreRefusedBecauseLookingThemUpMayBlock) {
  StartPair();
  const std::string port = address_.substr(address_.find(':'));
  address_ = "localhost" + port;
  EXPECT_EQ(SendAndWait("x", Pattern(10)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(DataPlaneContractTest, ReceiverComesBackAtTheSameAddress) {
  StartPair();
  const std::vector<std::byte> payload = Pattern(100'000);
  ASSERT_TRUE(SendAndWait("x", payload).ok());
  for (int round = 0; round < 3; ++round) {
    receiving_plane_->Shutdown();
    receiving_plane_ = MakeReceiving(address_);
    ASSERT_NE(receiving_plane_, nullptr);
    absl::Status status = SendAndWait("x", payload);  // the first may meet the old connection
    for (int tries = 0; !status.ok() && tries < 3; ++tries) status = SendAndWait("x", payload);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_P(DataPlaneContractTest, VerdictThatNeverComesIsDeadlineExceeded) {
  receiver_.verdict = [](const RecordingReceiver::Entry&) { return std::nullopt; };
  StartPair(/*stall_timeout_ms=*/200);
  const std::vector<std::byte> payload = Pattern(100'000);
  EXPECT_EQ(SendAndWait("x", payload).code(), absl::StatusCode::kDeadlineExceeded);
  receiver_.entry(1).reply(absl::OkStatus());  // too late: nobody is confused
  receiver_.verdict = [](const RecordingReceiver::Entry&) { return absl::OkStatus(); };
  EXPECT_TRUE(SendAndWait("y", payload).ok());
}

TEST_P(DataPlaneContractTest, ReplyAfterShutdownDoesNothing) {
  receiver_.verdict = [](const RecordingReceiver::Entry&) { return std::nullopt; };
  StartPair();
  const std::vector<std::byte> payload = Pattern(1000);
  SendResult result;
  sender_->Send(address_, "x", payload, result.Callback());
  ASSERT_TRUE(receiver_.WaitQuiet(1));
  receiving_plane_.reset();
  receiver_.entry(1).reply(absl::OkStatus());
  EXPECT_EQ(result.Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_P(DataPlaneContractTest, AfterShutdownSendsAreCancelled) {
  StartPair();
  sender_->Shutdown();
  sender_->Shutdown();
  SendResult result;
  const DataPlane::SendId id = sender_->Send(address_, "x", Pattern(10), result.Callback());
  sender_->CancelSend(id);
  sender_->CloseLanding(1);
  EXPECT_EQ(result.Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(result.count(), 1);
}

TEST_P(DataPlaneContractTest, ShutdownWithManyRunningEndsEachOnce) {
  for (int round = 0; round < 3; ++round) {
    RecordingReceiver receiver;
    DataPlaneOptions options;
    options.listen = "127.0.0.1:0";
    options.receiver = &receiver;
    const std::unique_ptr<DataPlane> receiving = *MakeDataPlane(GetParam(), options);
    const std::unique_ptr<DataPlane> sending = MakeSending();
    const std::vector<std::byte> payload = Pattern(4 << 20);
    std::vector<SendResult> results(30);
    for (SendResult& result : results) {
      sending->Send(receiving->listen_address(), "x", payload, result.Callback());
    }
    ASSERT_TRUE(receiver.WaitAnnounced(1 + round * 3));
    if (round % 2 == 0) receiving->Shutdown();
    sending->Shutdown();
    for (SendResult& result : results) EXPECT_EQ(result.count(), 1);
    receiving->Shutdown();
    EXPECT_TRUE(receiver.WaitQuiet(receiver.size()));
    EXPECT_TRUE(receiver.broke_no_rule());
    EXPECT_EQ(sending->stats().sends_in_flight, 0);
    EXPECT_EQ(receiving->stats().landings_in_flight, 0);
  }
}

TEST_P(DataPlaneContractTest, AThousandTransfersLeaveNothingBehind) {
  const std::vector<std::byte> payload = Pattern(5'000);
  const auto carry = [&](int count) {
    StartPair();
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(SendAndWait("x", payload).ok());
      receiver_.Forget();
    }
    sender_.reset();
    receiving_plane_.reset();
  };
  for (int i = 0; i < 3; ++i) carry(100);  // libraries keep what they once needed
  const size_t descriptors = OpenDescriptors();
  const size_t threads = RunningThreads();
  const size_t memory = ResidentBytes();
  carry(1'000);
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(RunningThreads(), threads);
  if (!kSanitized) {  // sanitizers keep freed memory
    EXPECT_LT(ResidentBytes(), memory + (4 << 20));
  }
}

TEST_P(DataPlaneContractTest, EndpointsComeBackWhenPeersComeAndGo) {
  receiving_plane_ = MakeReceiving();
  address_ = receiving_plane_->listen_address();
  const std::vector<std::byte> payload = Pattern(5'000);
  for (int i = 0; i < 10; ++i) {
    sender_ = MakeSending();
    ASSERT_TRUE(SendAndWait("x", payload).ok());
    sender_.reset();
  }
  for (int i = 0; i < 400 && receiving_plane_->stats().open_endpoints > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(receiving_plane_->stats().open_endpoints, 0);
}

TEST_P(DataPlaneContractTest, BadOptionsAndTakenPortsFailInWords) {
  receiving_plane_ = MakeReceiving();
  DataPlaneOptions options;
  options.receiver = &receiver_;
  EXPECT_EQ(MakeDataPlane(GetParam(), options).status().code(), absl::StatusCode::kInvalidArgument);
  options.listen = receiving_plane_->listen_address();
  EXPECT_EQ(MakeDataPlane(GetParam(), options).status().code(),
            absl::StatusCode::kFailedPrecondition);
  options.listen = "nonsense";
  EXPECT_EQ(MakeDataPlane(GetParam(), options).status().code(), absl::StatusCode::kInvalidArgument);
  options.listen = "203.0.113.77:0";  // not this machine's
  EXPECT_EQ(MakeDataPlane(GetParam(), options).status().code(),
            absl::StatusCode::kFailedPrecondition);
  options.listen = "127.0.0.1:0";
  options.receiver = nullptr;
  EXPECT_EQ(MakeDataPlane(GetParam(), options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(DataPlaneContractTest, SelfTestSaysWhatIsUsed) {
  const absl::StatusOr<std::string> used = SelfTest(GetParam(), "127.0.0.1");
  ASSERT_TRUE(used.ok()) << used.status();
  EXPECT_NE(used->find("tcp"), std::string::npos) << *used;
}

INSTANTIATE_TEST_SUITE_P(Backends, DataPlaneContractTest, testing::Values("tcp", "ucx"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace anchorage::transport
