// What the tcp backend owes beyond the contract: strangers and broken peers on its port.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "observe/host_port.h"
#include "observe/logging.h"
#include "tests/transport/recording_receiver.h"
#include "transport/data/data_plane.h"
#include "transport/data/tcp/frame.h"

namespace anchorage::transport {
namespace {

class RawSender {
 public:
  explicit RawSender(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const observe::HostPort where = *observe::ParseHostPort(address);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(where.port);
    to.sin_addr.s_addr = inet_addr(where.host.c_str());
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~RawSender() { close(fd_); }

  RawSender& Write(const std::string& bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    return *this;
  }
  RawSender& Greet() { return Write(std::string("ANCD\x01\0\x06\0secret", 14)); }
  RawSender& Frame(FrameKind kind, uint32_t extra, uint64_t id, uint64_t length) {
    const TransferFrameBytes bytes = Encode({kind, extra, id, length});
    return Write(std::string(bytes.data(), bytes.size()));
  }
  // Waits until the other side has closed; false after five seconds.
  bool Closed() {
    for (int i = 0; i < 500; ++i) {
      char scratch[4096];
      const ssize_t got = recv(fd_, scratch, sizeof(scratch), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
      if (got < 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  int fd_;
};

class TcpPlaneTest : public testing::Test {
 protected:
  void SetUp() override {
    observe::StartLogging("test", observe::LogLevel::kOff);
    DataPlaneOptions options;
    options.listen = "127.0.0.1:0";
    options.auth_token = "secret";
    options.receiver = &receiver_;
    plane_ = *MakeDataPlane("tcp", options);
    address_ = plane_->listen_address();
  }
  void TearDown() override {
    EXPECT_TRUE(SendWithToken("secret").ok());  // whatever came before, others are served
    plane_->Shutdown();
    EXPECT_TRUE(receiver_.broke_no_rule());
    EXPECT_EQ(plane_->stats().landings_in_flight, 0);
  }
  absl::Status SendWithToken(const std::string& token) {
    DataPlaneOptions options;
    options.auth_token = token;
    const std::unique_ptr<DataPlane> sender = *MakeDataPlane("tcp", options);
    const std::vector<std::byte> payload = Pattern(1000);
    SendResult result;
    sender->Send(address_, "x", payload, result.Callback());
    return result.Wait();
  }

  RecordingReceiver receiver_;
  std::unique_ptr<DataPlane> plane_;
  std::string address_;
};

TEST_F(TcpPlaneTest, WrongTokensAreTurnedAwayInWords) {
  for (const char* wrong : {"", "secre", "secret2", "SECRET"}) {
    const absl::Status status = SendWithToken(wrong);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  }
  EXPECT_EQ(receiver_.size(), 0u);
}

TEST_F(TcpPlaneTest, JunkIsClosedBeforeAnythingIsParsed) {
  for (const std::string& junk :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(17, '\0'), std::string(1000, '\xFF'),
        std::string("ANCC\x01\0\x06\0secret", 14), std::string("ANCD\x02\0\x06\0secret", 14),
        std::string("ANCD\x01\0\xFF\xFF", 8)}) {
    EXPECT_TRUE(RawSender(address_).Write(junk).Closed());
  }
  EXPECT_EQ(receiver_.size(), 0u);
}

TEST_F(TcpPlaneTest, FramesThatBreakALimitEndTheConnection) {
  EXPECT_TRUE(RawSender(address_).Greet().Frame(FrameKind{9}, 0, 1, 0).Closed());
  EXPECT_TRUE(RawSender(address_).Greet().Frame(FrameKind::kAccept, 0, 1, 0).Closed());
  EXPECT_TRUE(RawSender(address_).Greet().Frame(FrameKind::kVerdict, 0, 1, 0).Closed());
  EXPECT_TRUE(
      RawSender(address_).Greet().Frame(FrameKind::kAnnounce, kMaxHeaderBytes + 1, 1, 0).Closed());
  EXPECT_TRUE(RawSender(address_).Greet().Frame(FrameKind::kAnnounce, 0, 1, ~0ull).Closed());
  EXPECT_TRUE(RawSender(address_).Greet().Frame(FrameKind::kChunk, 0, 1, 10).Closed());
  EXPECT_EQ(receiver_.size(), 0u);
}

TEST_F(TcpPlaneTest, ChunkThatIsLongerThanAnnouncedIsNotWritten) {
  RawSender sender(address_);
  sender.Greet().Frame(FrameKind::kAnnounce, 1, 1, 10).Write("h");
  ASSERT_TRUE(receiver_.WaitAnnounced(1));
  sender.Frame(FrameKind::kChunk, 0, 1, 11).Write(std::string(11, 'x'));
  EXPECT_TRUE(sender.Closed());
  ASSERT_TRUE(receiver_.WaitQuiet(1));
  EXPECT_FALSE(receiver_.entry(1).landed.ok());
  EXPECT_EQ(receiver_.entry(1).region, std::vector<std::byte>(10));
}

TEST_F(TcpPlaneTest, IdsThatDoNotGrowEndTheConnection) {
  RawSender sender(address_);
  sender.Greet().Frame(FrameKind::kAnnounce, 0, 5, 10).Frame(FrameKind::kAnnounce, 0, 5, 10);
  EXPECT_TRUE(sender.Closed());
  ASSERT_TRUE(receiver_.WaitQuiet(1));
}

TEST_F(TcpPlaneTest, ChunksOfSeveralTransfersMayBeMixed) {
  RawSender sender(address_);
  sender.Greet();
  for (const uint64_t id : {1, 2}) sender.Frame(FrameKind::kAnnounce, 0, id, 6);
  for (const char* part : {"ab", "cd", "ef"}) {
    for (const uint64_t id : {1, 2}) sender.Frame(FrameKind::kChunk, 0, id, 2).Write(part);
  }
  ASSERT_TRUE(receiver_.WaitQuiet(2));
  for (const uint64_t token : {1, 2}) {
    EXPECT_TRUE(receiver_.entry(token).landed.ok());
    EXPECT_EQ(std::memcmp(receiver_.entry(token).region.data(), "abcdef", 6), 0);
  }
}

TEST_F(TcpPlaneTest, AbortedTransferIsQuietAndTheConnectionGoesOn) {
  RawSender sender(address_);
  sender.Greet()
      .Frame(FrameKind::kAnnounce, 0, 1, 10)
      .Frame(FrameKind::kChunk, 0, 1, 4)
      .Write("abcd");
  sender.Frame(FrameKind::kAbort, 0, 1, 0).Frame(FrameKind::kAnnounce, 0, 2, 0);
  ASSERT_TRUE(receiver_.WaitQuiet(2));
  EXPECT_EQ(receiver_.entry(1).landed.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(receiver_.entry(2).landed.ok());
}

TEST_F(TcpPlaneTest, ClosedLandingThrowsTheRestAwayAndTheConnectionGoesOn) {
  RawSender sender(address_);
  sender.Greet()
      .Frame(FrameKind::kAnnounce, 0, 1, 10)
      .Frame(FrameKind::kChunk, 0, 1, 4)
      .Write("abcd");
  ASSERT_TRUE(receiver_.WaitAnnounced(1));
  plane_->CloseLanding(1);
  ASSERT_TRUE(receiver_.WaitQuiet(1));
  const std::vector<std::byte> before = receiver_.entry(1).region;
  sender.Frame(FrameKind::kChunk, 0, 1, 6).Write("efghij").Frame(FrameKind::kAnnounce, 0, 2, 0);
  ASSERT_TRUE(receiver_.WaitQuiet(2));
  EXPECT_EQ(receiver_.entry(1).region, before);
}

TEST(TransferFrameTest, ComesBackUnchanged) {
  const TransferFrame frame{FrameKind::kAnnounce, 500, 0x0123456789ABCDEF, 1ull << 35};
  const absl::StatusOr<TransferFrame> back = DecodeTransferFrame(Encode(frame));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->kind, frame.kind);
  EXPECT_EQ(back->extra, frame.extra);
  EXPECT_EQ(back->id, frame.id);
  EXPECT_EQ(back->length, frame.length);
  EXPECT_EQ(Encode(frame)[8], '\xEF');  // little endian
}

}  // namespace
}  // namespace anchorage::transport
