// The other process dies or stops in the middle of a transfer.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "observe/logging.h"
#include "tests/support/sanitized.h"
#include "tests/transport/recording_receiver.h"
#include "transport/data/data_plane.h"

namespace anchorage::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// More than sockets buffer, so that a transfer is under way when its peer dies.
constexpr size_t kLong = (kSanitized ? 16 : 64) << 20;

// A running transport_peer; killed at the end.
class Peer {
 public:
  explicit Peer(std::vector<std::string> arguments) {
    int pipe_ends[2];
    EXPECT_EQ(pipe(pipe_ends), 0);
    arguments.insert(arguments.begin(), TRANSPORT_PEER);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_ends[1], STDOUT_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(pipe_ends[1]);
    out_ = fdopen(pipe_ends[0], "r");
  }
  ~Peer() {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
    std::fclose(out_);
  }

  std::string ReadLine() {
    char line[256] = "";
    if (std::fgets(line, sizeof(line), out_) == nullptr) return "";
    return std::string(line, std::strcspn(line, "\n"));
  }
  void Signal(int signal) { kill(pid_, signal); }

 private:
  pid_t pid_ = 0;
  std::FILE* out_ = nullptr;
};

class KilledPeerTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { observe::StartLogging("test", observe::LogLevel::kOff); }

  std::unique_ptr<DataPlane> MakeSending(int64_t stall_timeout_ms) {
    DataPlaneOptions options;
    options.interface_host = "127.0.0.1";
    options.stall_timeout_ms = stall_timeout_ms;
    return *MakeDataPlane(GetParam(), options);
  }

  // `count` long transfers at once, so that some are in the middle.
  std::vector<SendResult> SendLong(DataPlane& plane, const std::string& address,
                                   std::span<const std::byte> payload, size_t count) {
    std::vector<SendResult> results(count);
    for (SendResult& result : results) plane.Send(address, "x", payload, result.Callback());
    return results;
  }
};

TEST_P(KilledPeerTest, SenderLearnsThatTheReceiverDied) {
  Peer peer({"receive", GetParam()});
  const std::string address = peer.ReadLine();
  ASSERT_FALSE(address.empty());
  const std::unique_ptr<DataPlane> plane = MakeSending(10'000);
  const std::vector<std::byte> payload = Pattern(kLong);
  std::vector<SendResult> results = SendLong(*plane, address, payload, 8);
  EXPECT_TRUE(results[0].Wait().ok());
  const auto start = steady_clock::now();
  peer.Signal(SIGKILL);
  size_t lost = 0;
  for (SendResult& result : results) {
    const absl::Status status = result.Wait();
    lost += !status.ok();
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kUnavailable) << status;
  }
  EXPECT_GT(lost, 0u);
  EXPECT_LT(steady_clock::now() - start, milliseconds(5'000));
  SendResult next;
  plane->Send(address, "x", payload, next.Callback());
  EXPECT_EQ(next.Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_P(KilledPeerTest, StoppedReceiverIsATimeOutAndWorksAgainAfterwards) {
  Peer peer({"receive", GetParam()});
  const std::string address = peer.ReadLine();
  ASSERT_FALSE(address.empty());
  const std::unique_ptr<DataPlane> plane = MakeSending(400);
  const std::vector<std::byte> payload = Pattern(1 << 20);
  EXPECT_TRUE(SendLong(*plane, address, payload, 1)[0].Wait().ok());
  peer.Signal(SIGSTOP);
  const std::vector<std::byte> large = Pattern(kLong);
  for (SendResult& result : SendLong(*plane, address, large, 3)) {
    const absl::Status status = result.Wait();
    EXPECT_TRUE(status.code() == absl::StatusCode::kDeadlineExceeded ||
                status.code() == absl::StatusCode::kUnavailable)
        << status;
  }
  EXPECT_EQ(plane->stats().sends_in_flight, 0);
  peer.Signal(SIGCONT);
  absl::Status status;
  for (int tries = 0; tries < 10; ++tries) {
    status = SendLong(*plane, address, payload, 1)[0].Wait();
    if (status.ok()) break;
  }
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(KilledPeerTest, ShutdownWithAStoppedReceiverReturnsSoon) {
  Peer peer({"receive", GetParam()});
  const std::string address = peer.ReadLine();
  ASSERT_FALSE(address.empty());
  const std::unique_ptr<DataPlane> plane = MakeSending(10'000);
  const std::vector<std::byte> payload = Pattern(kLong);
  EXPECT_TRUE(SendLong(*plane, address, payload, 1)[0].Wait().ok());
  peer.Signal(SIGSTOP);
  std::vector<SendResult> results = SendLong(*plane, address, payload, 3);
  std::this_thread::sleep_for(milliseconds(50));
  const auto start = steady_clock::now();
  plane->Shutdown();
  EXPECT_LT(steady_clock::now() - start, milliseconds(3'000));
  for (SendResult& result : results) EXPECT_EQ(result.count(), 1);
}

TEST_P(KilledPeerTest, ReceiverLearnsThatTheSenderDiedAndTheRegionIsQuiet) {
  RecordingReceiver receiver;
  DataPlaneOptions options;
  options.listen = "127.0.0.1:0";
  options.receiver = &receiver;
  const std::unique_ptr<DataPlane> plane = *MakeDataPlane(GetParam(), options);
  size_t broken = 0;
  for (size_t round = 0; round < 4; ++round) {
    const size_t before = receiver.size();
    {
      Peer peer({"send", GetParam(), plane->listen_address()});
      ASSERT_TRUE(receiver.WaitAnnounced(before + 1));
      std::this_thread::sleep_for(milliseconds(3 * round));
      peer.Signal(SIGKILL);
    }
    ASSERT_TRUE(receiver.WaitQuiet(receiver.size()));
    RecordingReceiver::Entry& last = receiver.entry(receiver.size());
    if (last.landed.ok()) continue;
    ++broken;
    std::fill(last.region.begin(), last.region.end(), std::byte{0xEE});
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_TRUE(std::all_of(last.region.begin(), last.region.end(),
                            [](std::byte byte) { return byte == std::byte{0xEE}; }));
  }
  EXPECT_GT(broken, 0u);
  EXPECT_EQ(plane->stats().landings_in_flight, 0);
  plane->Shutdown();
  EXPECT_TRUE(receiver.broke_no_rule());
}

TEST_P(KilledPeerTest, LandingOfAStoppedSenderCanBeClosed) {
  RecordingReceiver receiver;
  DataPlaneOptions options;
  options.listen = "127.0.0.1:0";
  options.receiver = &receiver;
  const std::unique_ptr<DataPlane> plane = *MakeDataPlane(GetParam(), options);
  Peer peer({"send", GetParam(), plane->listen_address()});
  ASSERT_TRUE(receiver.WaitAnnounced(1));
  peer.Signal(SIGSTOP);
  std::this_thread::sleep_for(milliseconds(100));
  const uint64_t last = receiver.size();
  plane->CloseLanding(last);
  const auto start = steady_clock::now();
  ASSERT_TRUE(receiver.WaitQuiet(last));
  EXPECT_LT(steady_clock::now() - start, milliseconds(2'000));
  peer.Signal(SIGCONT);  // whatever it still sends goes nowhere
  std::vector<std::byte>& region = receiver.entry(last).region;
  if (!receiver.entry(last).landed.ok()) {
    std::fill(region.begin(), region.end(), std::byte{0xEE});
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_TRUE(std::all_of(region.begin(), region.end(),
                            [](std::byte byte) { return byte == std::byte{0xEE}; }));
  }
  plane->Shutdown();
  EXPECT_TRUE(receiver.broke_no_rule());
}

INSTANTIATE_TEST_SUITE_P(Backends, KilledPeerTest, testing::Values("tcp", "ucx"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace anchorage::transport
