#include "transport/control/frame.h"

#include <gtest/gtest.h>

#include <cstring>

#include "transport/control/channel.h"

namespace anchorage::transport {
namespace {

proto::Envelope Heartbeat(uint64_t boot) {
  proto::Envelope message;
  message.set_sender_boot(boot);
  message.mutable_heartbeat()->set_sequence(7);
  return message;
}

TEST(FrameTest, LengthIsLittleEndianAndBodyComesBack) {
  const absl::StatusOr<std::string> frame = EncodeFrame(Heartbeat(5));
  ASSERT_TRUE(frame.ok());
  unsigned char length[kFrameLengthBytes];
  std::memcpy(length, frame->data(), sizeof(length));
  EXPECT_EQ(length[0], frame->size() - kFrameLengthBytes);
  const absl::StatusOr<size_t> size = DecodeFrameLength(length, kMaxFrameBytes);
  ASSERT_TRUE(size.ok());
  const absl::StatusOr<proto::Envelope> back = DecodeFrame(frame->substr(kFrameLengthBytes), 5);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->heartbeat().sequence(), 7u);
}

TEST(FrameTest, RefusesLengthsThatAreZeroOrAboveTheBound) {
  EXPECT_FALSE(DecodeFrameLength({0, 0, 0, 0}, 100).ok());
  EXPECT_TRUE(DecodeFrameLength({100, 0, 0, 0}, 100).ok());
  EXPECT_FALSE(DecodeFrameLength({101, 0, 0, 0}, 100).ok());
  EXPECT_FALSE(DecodeFrameLength({0xFF, 0xFF, 0xFF, 0xFF}, kMaxFrameBytes).ok());
}

TEST(FrameTest, RefusesForeignBootsUnknownBodiesAndBytesThatAreNoMessage) {
  const auto body = [](const proto::Envelope& message) {
    return EncodeFrame(message)->substr(kFrameLengthBytes);
  };
  EXPECT_TRUE(DecodeFrame(body(Heartbeat(5)), 0).ok());
  EXPECT_FALSE(DecodeFrame(body(Heartbeat(5)), 6).ok());
  EXPECT_FALSE(DecodeFrame(body(Heartbeat(0)), 0).ok());
  proto::Envelope empty;
  empty.set_sender_boot(5);
  EXPECT_FALSE(DecodeFrame(body(empty), 5).ok());
  EXPECT_FALSE(DecodeFrame("\xFF\xFF\xFF", 5).ok());
}

TEST(FrameTest, RefusesToEncodeWhatIsLongerThanAFrame) {
  proto::Envelope message;
  message.mutable_reject()->set_reason(std::string(kMaxFrameBytes, 'x'));
  EXPECT_EQ(EncodeFrame(message).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace anchorage::transport
