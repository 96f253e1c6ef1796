#include "transport/control/frame.h"

#include "common/status.h"
#include "transport/control/channel.h"

namespace anchorage::transport {

absl::StatusOr<std::string> EncodeFrame(const proto::Envelope& message) {
  const size_t length = message.ByteSizeLong();
  if (length > kMaxFrameBytes) {
    return Invalid("a message of %d bytes is longer than a frame may be (%d)", length,
                   kMaxFrameBytes);
  }
  std::string frame;
  frame.reserve(kFrameLengthBytes + length);
  for (size_t i = 0; i < kFrameLengthBytes; ++i) {
    frame += static_cast<char>((length >> (8 * i)) & 0xFF);
  }
  if (!message.AppendToString(&frame)) return Internal("a message could not be serialised");
  return frame;
}

absl::StatusOr<size_t> DecodeFrameLength(const unsigned char (&length_bytes)[kFrameLengthBytes],
                                         size_t max_bytes) {
  size_t length = 0;
  for (size_t i = 0; i < kFrameLengthBytes; ++i) length |= size_t{length_bytes[i]} << (8 * i);
  if (length == 0 || length > max_bytes) {
    return Invalid("a frame of %d bytes, allowed are 1 to %d", length, max_bytes);
  }
  return length;
}

absl::StatusOr<proto::Envelope> DecodeFrame(const std::string& bytes, uint64_t sender_boot) {
  proto::Envelope message;
  if (!message.ParseFromString(bytes)) return Invalid("a frame that is no message");
  if (message.body_case() == proto::Envelope::BODY_NOT_SET) {
    return Invalid("a message of a kind that is not known here");
  }
  if (message.sender_boot() == 0 || (sender_boot != 0 && message.sender_boot() != sender_boot)) {
    return Invalid("a message from boot %016x on a channel of boot %016x", message.sender_boot(),
                   sender_boot);
  }
  return message;
}

}  // namespace anchorage::transport
