#include "transport/control/channel.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "observe/host_port.h"
#include "observe/logging.h"
#include "proto/worker.pb.h"
#include "transport/control/frame.h"
#include "transport/net/asio.h"

namespace anchorage::transport {
namespace {

using std::chrono::milliseconds;

ControlOptions Quick() {
  ControlOptions options;
  options.heartbeat_interval_ms = 20;
  options.handshake_timeout_ms = 300;
  options.redial_min_ms = 5;
  options.redial_max_ms = 20;
  return options;
}

proto::Hello Hello(const std::string& name, const std::string& token = "secret") {
  proto::Hello hello;
  hello.set_node_name(name);
  hello.set_token(token);
  return hello;
}

class Recorder : public ControlHandler {
 public:
  absl::Status OnHello(const proto::Hello& hello) override {
    ++hellos;
    last_hello = hello;
    return judgement;
  }
  void OnUp(ControlChannelPtr channel) override {
    ++ups;
    channels.push_back(channel);
    if (on_up) on_up(channel);
  }
  void OnMessage(ControlChannelPtr channel, proto::Envelope message) override {
    messages.push_back(message);
    if (on_message) on_message(channel, message);
  }
  void OnDown(ControlChannelPtr channel, absl::Status reason) override {
    ++downs;
    last_reason = reason;
    EXPECT_FALSE(channel->open());
    if (on_down) on_down();
  }

  absl::Status judgement;
  proto::Hello last_hello;
  absl::Status last_reason;
  int hellos = 0;
  int ups = 0;
  int downs = 0;
  std::vector<ControlChannelPtr> channels;
  std::deque<proto::Envelope> messages;
  std::function<void(ControlChannelPtr)> on_up;
  std::function<void(ControlChannelPtr, const proto::Envelope&)> on_message;
  std::function<void()> on_down;
};

size_t OpenDescriptors() {
  size_t count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// A peer that speaks bytes, not our protocol.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const observe::HostPort where = *observe::ParseHostPort(address);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(where.port);
    to.sin_addr.s_addr = inet_addr(where.host.c_str());
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~RawPeer() { close(fd_); }

  void Write(const std::string& bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void WriteGreeting(const std::string& token) {
    std::string greeting("ANCC\x01\0", 6);
    greeting += static_cast<char>(token.size());
    greeting += '\0';
    Write(greeting + token);
  }
  void WriteFrame(proto::Envelope message, uint64_t boot = 77) {
    message.set_sender_boot(boot);
    Write(*EncodeFrame(message));
  }
  void WriteHello() {
    proto::Envelope message;
    message.mutable_hello()->set_node_name("raw");
    WriteFrame(message);
  }
  void WriteHeartbeat(uint64_t boot = 77) {
    proto::Envelope message;
    message.mutable_heartbeat();
    WriteFrame(message, boot);
  }
  bool PeerHasClosed() {
    char scratch[65536];
    while (true) {
      const ssize_t got = recv(fd_, scratch, sizeof(scratch), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
      if (got < 0) return false;
    }
  }

 private:
  int fd_;
};

class ControlChannelTest : public testing::Test {
 protected:
  void SetUp() override { observe::StartLogging("test", observe::LogLevel::kOff); }
  void TearDown() override {
    if (dialer_) dialer_->Stop();
    if (server_) server_->Stop();
    server_handler_.channels.clear();
    dialer_handler_.channels.clear();
    io_.restart();
    io_.run();  // returns only when no coroutine and no timer is left
  }

  void Listen(const std::string& address = "127.0.0.1:0", const std::string& token = "secret") {
    absl::StatusOr<std::unique_ptr<ControlServer>> server =
        ListenControl(io_, address, 1, Hello("server", token), options_, server_handler_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Dial(const std::string& token = "secret") {
    dialer_ =
        DialControl(io_, server_->address(), 2, Hello("dialer", token), options_, dialer_handler_);
  }
  void Connect() {
    Listen();
    Dial();
    ASSERT_TRUE(RunUntil([&] { return server_handler_.ups == 1 && dialer_handler_.ups == 1; }));
  }

  // Runs the loop until `done`, for at most `limit`.
  bool RunUntil(const std::function<bool()>& done, milliseconds limit = milliseconds(5'000)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.restart();
      io_.run_one_for(milliseconds(10));
    }
    return true;
  }

  asio::io_context io_{1};
  ControlOptions options_ = Quick();
  Recorder server_handler_;
  Recorder dialer_handler_;
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<ControlDialer> dialer_;
};

proto::Envelope Cancel(uint64_t request) {
  proto::Envelope message;
  message.mutable_cancel()->mutable_attempt()->set_request(request);
  return message;
}

TEST_F(ControlChannelTest, BothSidesLearnWhoThePeerIs) {
  Connect();
  EXPECT_EQ(server_handler_.channels[0]->peer().node_name(), "dialer");
  EXPECT_EQ(server_handler_.channels[0]->peer_boot(), 2u);
  EXPECT_EQ(dialer_handler_.channels[0]->peer().node_name(), "server");
  EXPECT_EQ(dialer_handler_.channels[0]->peer_boot(), 1u);
  EXPECT_EQ(server_handler_.last_hello.token(), "secret");
  EXPECT_EQ(dialer_handler_.channels[0]->peer_address(), server_->address());
}

TEST_F(ControlChannelTest, MessagesArriveInOrderBothWays) {
  Connect();
  for (uint64_t i = 0; i < 500; ++i) {
    server_handler_.channels[0]->Send(Cancel(i));
    dialer_handler_.channels[0]->Send(Cancel(1000 + i));
  }
  ASSERT_TRUE(RunUntil([&] {
    return server_handler_.messages.size() == 500 && dialer_handler_.messages.size() == 500;
  }));
  for (uint64_t i = 0; i < 500; ++i) {
    EXPECT_EQ(dialer_handler_.messages[i].cancel().attempt().request(), i);
    EXPECT_EQ(server_handler_.messages[i].cancel().attempt().request(), 1000 + i);
    EXPECT_EQ(server_handler_.messages[i].sender_boot(), 2u);
  }
}

TEST_F(ControlChannelTest, CarriesMessagesOfMegabytes) {
  Connect();
  proto::Envelope message;
  for (int i = 0; i < 1'000'000; ++i) message.mutable_enqueue()->add_prompt_ids(100'000 + i);
  dialer_handler_.channels[0]->Send(message);
  ASSERT_TRUE(RunUntil([&] { return !server_handler_.messages.empty(); }));
  EXPECT_EQ(server_handler_.messages[0].enqueue().prompt_ids(999'999), 1'099'999);
}

TEST_F(ControlChannelTest, HeartbeatsKeepAnIdleChannelUp) {
  Connect();
  EXPECT_FALSE(RunUntil([&] { return server_handler_.downs + dialer_handler_.downs > 0; },
                        milliseconds(10 * options_.heartbeat_interval_ms)));
}

TEST_F(ControlChannelTest, WrongTokenIsRefusedBeforeAnyHello) {
  Listen();
  Dial("guess");
  EXPECT_FALSE(RunUntil([&] { return dialer_handler_.ups > 0; }, milliseconds(100)));
  EXPECT_EQ(server_handler_.hellos, 0);
  EXPECT_EQ(dialer_handler_.hellos, 0);
}

TEST_F(ControlChannelTest, ServerRefusesInWordsAndTheDialerLogsThem) {
  std::vector<std::string> lines;
  observe::StartLogging("test", observe::LogLevel::kWarning);
  observe::SetLogSink([&](std::string_view line) { lines.emplace_back(line); });
  Listen();
  server_handler_.judgement = absl::FailedPreconditionError("another model");
  Dial();
  EXPECT_TRUE(RunUntil([&] { return dialer_handler_.hellos >= 3; }));
  EXPECT_EQ(dialer_handler_.ups, 0);
  EXPECT_EQ(server_handler_.ups, 0);
  int told = 0;
  for (const std::string& line : lines) {
    told += line.find("the peer refused us: another model") != std::string::npos;
  }
  EXPECT_EQ(told, 1);  // the same reason is logged once, however often it is dialled
  observe::SetLogSink(nullptr);
}

TEST_F(ControlChannelTest, DialerMayRefuseToo) {
  Listen();
  dialer_handler_.judgement = absl::FailedPreconditionError("not my kind");
  Dial();
  EXPECT_TRUE(RunUntil([&] { return dialer_handler_.hellos >= 2; }));
  EXPECT_EQ(dialer_handler_.ups, 0);
  EXPECT_EQ(server_handler_.ups, 0);
}

TEST_F(ControlChannelTest, RedialsWhenTheServerComesBackWithAnotherBoot) {
  Connect();
  const std::string address = server_->address();
  server_->Stop();
  EXPECT_EQ(server_handler_.downs, 1);  // at once
  server_.reset();
  ASSERT_TRUE(RunUntil([&] { return dialer_handler_.downs == 1; }));
  absl::StatusOr<std::unique_ptr<ControlServer>> again =
      ListenControl(io_, address, 9, Hello("server"), options_, server_handler_);
  ASSERT_TRUE(again.ok()) << again.status();
  server_ = *std::move(again);
  ASSERT_TRUE(RunUntil([&] { return dialer_handler_.ups == 2; }));
  EXPECT_EQ(dialer_handler_.channels[1]->peer_boot(), 9u);
}

TEST_F(ControlChannelTest, ClosingFlushesWhatIsQueued) {
  Connect();
  for (uint64_t i = 0; i < 300; ++i) dialer_handler_.channels[0]->Send(Cancel(i));
  dialer_handler_.channels[0]->Close(absl::AbortedError("enough"));
  EXPECT_EQ(dialer_handler_.downs, 0);             // follows later
  dialer_handler_.channels[0]->Send(Cancel(999));  // dropped
  ASSERT_TRUE(RunUntil([&] { return dialer_handler_.downs == 1 && server_handler_.downs == 1; }));
  EXPECT_EQ(server_handler_.messages.size(), 300u);
  EXPECT_EQ(dialer_handler_.last_reason, absl::AbortedError("enough"));
}

TEST_F(ControlChannelTest, StoppingFlushesWhatIsQueued) {
  Connect();
  for (uint64_t i = 0; i < 300; ++i) server_handler_.channels[0]->Send(Cancel(i));
  bool stopped = false;
  server_->Stop([&] { stopped = true; });
  EXPECT_EQ(server_handler_.downs, 1);
  ASSERT_TRUE(RunUntil([&] { return dialer_handler_.downs == 1 && stopped; }));
  EXPECT_EQ(dialer_handler_.messages.size(), 300u);
}

TEST_F(ControlChannelTest, EverythingMayGoAwayInsideACallback) {
  Connect();
  dialer_handler_.on_message = [&](ControlChannelPtr, const proto::Envelope&) {
    dialer_->Stop();
    dialer_.reset();
  };
  server_handler_.on_down = [&] { server_->Stop(); };
  server_handler_.channels[0]->Send(Cancel(1));
  server_handler_.channels[0]->Send(Cancel(2));
  ASSERT_TRUE(RunUntil([&] { return server_handler_.downs == 1; }));
  EXPECT_EQ(dialer_handler_.downs, 1);
  EXPECT_EQ(dialer_handler_.messages.size(), 1u);
}

TEST_F(ControlChannelTest, DestroyedWithoutStopNobodyIsCalled) {
  Connect();
  server_.reset();
  dialer_.reset();
  io_.restart();
  io_.run();
  EXPECT_EQ(server_handler_.downs, 0);
  EXPECT_EQ(dialer_handler_.downs, 0);
}

TEST_F(ControlChannelTest, LoopMayBeDestroyedWithChannelsUp) {
  auto io = std::make_unique<asio::io_context>(1);
  auto server = *ListenControl(*io, "127.0.0.1:0", 1, Hello("s"), options_, server_handler_);
  auto dialer = DialControl(*io, server->address(), 2, Hello("d"), options_, dialer_handler_);
  while (dialer_handler_.ups == 0) io->run_one();
  dialer.reset();
  server.reset();
  dialer_handler_.channels.clear();
  server_handler_.channels.clear();
  io.reset();  // under ASan: nothing is leaked and nothing used after it is gone
}

TEST_F(ControlChannelTest, JunkAndStrangersAreClosedAndTheRestGoesOn) {
  Connect();
  std::deque<RawPeer> peers;
  for (const std::string& junk :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(17, '\0'), std::string(64, '\xFF'),
        std::string("ANCD\x01\0\x06\0secret", 14), std::string("ANCC\x01\0\xFF\xFF", 8)}) {
    peers.emplace_back(server_->address());
    peers.back().Write(junk);
  }
  peers.emplace_back(server_->address());
  peers.back().WriteGreeting("secret");
  peers.back().Write("\xFF\xFF\xFF\xFF and no more");
  peers.emplace_back(server_->address());
  peers.back().WriteGreeting("secret");
  peers.back().WriteHeartbeat();  // before any Hello
  ASSERT_TRUE(RunUntil([&] {
    for (RawPeer& peer : peers) {
      if (!peer.PeerHasClosed()) return false;
    }
    return true;
  }));
  EXPECT_EQ(server_handler_.ups, 1);
  EXPECT_EQ(server_handler_.downs, 0);
}

TEST_F(ControlChannelTest, SilentAndDrippingHandshakesTimeOut) {
  Listen();
  RawPeer silent(server_->address());
  RawPeer dripping(server_->address());
  dripping.WriteGreeting("secret");
  const std::string drips(200, '\x01');
  size_t next = 0;
  EXPECT_TRUE(RunUntil([&] {
    if (next < 4) dripping.Write(drips.substr(next++, 1));
    return silent.PeerHasClosed() && dripping.PeerHasClosed();
  }));
  EXPECT_EQ(server_handler_.ups, 0);
}

TEST_F(ControlChannelTest, HalfOpenPeerIsLostAfterThreeSilentIntervals) {
  Listen();
  RawPeer peer(server_->address());
  peer.WriteGreeting("secret");
  peer.WriteHello();
  peer.WriteHeartbeat();
  ASSERT_TRUE(RunUntil([&] { return server_handler_.ups == 1; }));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(RunUntil([&] { return server_handler_.downs == 1; }));
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, milliseconds(2 * options_.heartbeat_interval_ms));
  EXPECT_EQ(server_handler_.last_reason.code(), absl::StatusCode::kUnavailable);
}

TEST_F(ControlChannelTest, MessageFromAnotherBootEndsTheChannel) {
  Listen();
  RawPeer peer(server_->address());
  peer.WriteGreeting("secret");
  peer.WriteHello();
  peer.WriteHeartbeat();
  ASSERT_TRUE(RunUntil([&] { return server_handler_.ups == 1; }));
  peer.WriteHeartbeat(/*boot=*/78);
  ASSERT_TRUE(RunUntil([&] { return server_handler_.downs == 1; }));
  EXPECT_EQ(server_handler_.last_reason.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ControlChannelTest, PeerThatDoesNotReadIsLostWhenTheOutboxIsFull) {
  options_.max_outbox_bytes = 1 << 20;
  Listen();
  RawPeer peer(server_->address());
  peer.WriteGreeting("secret");
  peer.WriteHello();
  peer.WriteHeartbeat();
  ASSERT_TRUE(RunUntil([&] { return server_handler_.ups == 1; }));
  proto::Envelope large;
  large.mutable_ended()->set_message(std::string(256 << 10, 'x'));
  int sent = 0;
  ASSERT_TRUE(RunUntil([&] {
    if (server_handler_.channels[0]->open()) {
      peer.WriteHeartbeat();  // alive, but deaf
      server_handler_.channels[0]->Send(large);
      ++sent;
    }
    return server_handler_.downs == 1;
  }));
  EXPECT_GE(sent, 4);
  EXPECT_NE(std::string(server_handler_.last_reason.message()).find("does not read"),
            std::string::npos);
}

TEST_F(ControlChannelTest, ListeningOnATakenPortFailsInWords) {
  Listen();
  const auto second =
      ListenControl(io_, server_->address(), 3, Hello("s"), options_, server_handler_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(ListenControl(io_, "nonsense", 3, Hello("s"), options_, server_handler_).ok());
}

TEST_F(ControlChannelTest, DialsByNameAndSurvivesANameThatIsNone) {
  Listen("localhost:0");
  const auto lost =
      DialControl(io_, "no-such-host.invalid:1", 2, Hello("d"), options_, dialer_handler_);
  const observe::HostPort where = *observe::ParseHostPort(server_->address());
  dialer_ = DialControl(io_, absl::StrFormat("localhost:%d", where.port), 2, Hello("dialer"),
                        options_, dialer_handler_);
  EXPECT_TRUE(RunUntil([&] { return dialer_handler_.ups == 1; }));
  lost->Stop();
}

TEST_F(ControlChannelTest, TwoHundredChannelsLeaveNoDescriptorBehind) {
  Listen();
  const size_t before = OpenDescriptors();
  for (int round = 0; round < 200; ++round) {
    Dial();
    ASSERT_TRUE(RunUntil([&] { return dialer_handler_.ups == round + 1; }));
    dialer_->Stop();
    dialer_handler_.channels.clear();
  }
  ASSERT_TRUE(RunUntil([&] { return server_handler_.downs == server_handler_.ups; }));
  server_handler_.channels.clear();
  EXPECT_TRUE(RunUntil([&] { return OpenDescriptors() <= before; }));
}

}  // namespace
}  // namespace anchorage::transport
