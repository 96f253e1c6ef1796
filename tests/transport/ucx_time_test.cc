// What the ucx backend does as time passes. Both ends are driven by hand: nothing moves but what
// the test lets move, and the time is what the test says, so that nobody has to wait for it.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "observe/logging.h"
#include "tests/transport/recording_receiver.h"
#include "transport/data/ucx/calls.h"
#include "transport/data/ucx/commands.h"
#include "transport/data/ucx/endpoints.h"
#include "transport/data/ucx/landings.h"
#include "transport/data/ucx/sends.h"
#include "transport/data/ucx/worker.h"

namespace anchorage::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kStallMs = 10'000;
constexpr milliseconds kLongAfter(5'000);

// What both ends need.
struct Side {
  explicit Side(UcxEndpoints::OnClosed on_closed)
      : worker(*UcxWorker::Create("127.0.0.1")),
        endpoints(*worker, calls, counters, std::move(on_closed)) {}

  void Progress() { ucp_worker_progress(worker->handle()); }

  std::unique_ptr<UcxWorker> worker;
  UcxCalls calls;
  Counters counters;
  UcxEndpoints endpoints;
};

class UcxTimeTest : public testing::Test {
 protected:
  void SetUp() override {
    observe::StartLogging("test", observe::LogLevel::kOff);
    address_ = *receiving_.endpoints.Listen("127.0.0.1:0");
    const std::vector<std::byte> payload = Pattern(100);
    SendResult first;
    Send("first", payload, first);  // proves the connection: now several may be in transport
    ASSERT_TRUE(DriveBothUntil([&] { return first.count() == 1; }));
    ASSERT_TRUE(first.Wait().ok());
  }

  void TearDown() override {
    sending_.endpoints.BreakAll(absl::CancelledError("over"));
    receiving_.endpoints.BreakAll(absl::CancelledError("over"));
    EXPECT_TRUE(DriveBothUntil(
        [this] { return sending_.calls.running() == 0 && receiving_.calls.running() == 0; }));
    EXPECT_TRUE(receiver_.broke_no_rule());
  }

  void Send(const std::string& header, std::span<const std::byte> payload, SendResult& result) {
    sends_.Send(
        address_,
        {.id = ++last_id_, .header = header, .payload = payload, .done = result.Callback()});
  }

  // Let one end work, as its thread would, but for the look at the time.
  void DriveSender() {
    sends_.StartWaiting();
    sending_.Progress();
    sending_.endpoints.CloseBroken();
  }
  void DriveReceiver() {
    receiving_.Progress();
    landings_.RunDeferred();
    commands_->Run();
    receiving_.endpoints.CloseBroken();
  }
  static bool DriveUntil(const std::function<void()>& drive, const std::function<bool()>& until) {
    const auto limit = steady_clock::now() + RecordingReceiver::kLimit;
    while (!until() && steady_clock::now() < limit) drive();
    return until();
  }
  bool DriveBothUntil(const std::function<bool()>& until) {
    const auto both = [this] {
      DriveSender();
      DriveReceiver();
    };
    return DriveUntil(both, until);
  }

  RecordingReceiver receiver_;
  std::string address_;
  DataPlane::SendId last_id_ = 0;

  Side receiving_{[this](uint64_t endpoint, const absl::Status& reason) {
    landings_.OnEndpointClosed(endpoint, reason);
  }};
  std::shared_ptr<UcxCommands> commands_ =
      std::make_shared<UcxCommands>(receiving_.worker->handle());
  UcxLandings landings_{*receiving_.worker, receiving_.endpoints,
                        receiving_.calls,   receiving_.counters,
                        receiver_,          commands_};
  Side sending_{[this](uint64_t endpoint, const absl::Status& reason) {
    sends_.OnEndpointClosed(endpoint, reason);
  }};
  UcxSends sends_{*sending_.worker, sending_.endpoints, sending_.calls, sending_.counters,
                  kStallMs};
};

// The receiver wants none of what is in transport, and the link stands still. Whichever end gives
// the connection up, what waits behind must have left it by then.
TEST_F(UcxTimeTest, TheSenderMovesTheNeighboursBeforeTheReceiverClosesTheConnection) {
  const std::vector<std::byte> payload = Pattern(1 << 20);
  std::vector<SendResult> closed(4);
  SendResult kept;
  for (SendResult& result : closed) Send("closed", payload, result);
  Send("kept", payload, kept);
  DriveSender();
  ASSERT_TRUE(DriveUntil([this] { DriveReceiver(); }, [this] { return receiver_.size() == 5; }));
  for (uint64_t token = 2; token <= 5; ++token) landings_.Close(token);
  // Verdicts reach the sender; of the payloads nothing arrives, since nobody drives the receiver.
  ASSERT_TRUE(DriveUntil(
      [this] { DriveSender(); },
      [this] { return sending_.counters.received_bytes == receiving_.counters.sent_bytes; }));
  const auto now = steady_clock::now();
  milliseconds later(0);
  for (; later < kLongAfter; later += milliseconds(10)) {
    landings_.Watch(now + later);
    if (receiving_.endpoints.CloseBroken()) break;
    sends_.Watch(now + later);
    sending_.endpoints.CloseBroken();
  }
  ASSERT_LT(later, kLongAfter) << "the receiver waits for ever";
  ASSERT_TRUE(DriveBothUntil([&] { return kept.count() == 1; }));
  EXPECT_TRUE(kept.Wait().ok()) << kept.Wait();
  for (SendResult& result : closed) {
    ASSERT_TRUE(DriveBothUntil([&] { return result.count() == 1; }));
    EXPECT_EQ(result.Wait().code(), absl::StatusCode::kCancelled);
  }
}

// A small transfer shares the link with large ones, and each has a second at the least speed.
TEST_F(UcxTimeTest, ATransferIsGivenTheTimeOfAllInTransport) {
  const std::vector<std::byte> large = Pattern(16 << 20);
  std::vector<SendResult> results(4);
  for (size_t i = 0; i < 3; ++i) Send("large", large, results[i]);
  Send("small", std::span(large).first(1'000), results[3]);
  DriveSender();
  sends_.Watch(steady_clock::now() + milliseconds(kStallMs + 2'500));
  for (SendResult& result : results) {
    ASSERT_TRUE(DriveBothUntil([&] { return result.count() == 1; }));
    EXPECT_TRUE(result.Wait().ok()) << result.Wait();
  }
}

TEST_F(UcxTimeTest, ATransferStallsWhenTheTimeOfAllInTransportIsOver) {
  const std::vector<std::byte> large = Pattern(16 << 20);
  SendResult over;
  Send("large", large, over);
  ASSERT_TRUE(DriveBothUntil([&] { return over.count() == 1; }));
  const std::vector<std::byte> payload = Pattern(1 << 20);
  std::vector<SendResult> results(6);  // some wait behind those in transport
  for (SendResult& result : results) Send("x", payload, result);
  DriveSender();
  sends_.Watch(steady_clock::now() + milliseconds(kStallMs + 1'000));
  for (SendResult& result : results) {
    ASSERT_TRUE(DriveBothUntil([&] { return result.count() == 1; }));
    EXPECT_EQ(result.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  }
}

}  // namespace
}  // namespace anchorage::transport
