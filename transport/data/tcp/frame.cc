#include "transport/data/tcp/frame.h"

#include "common/status.h"
#include "transport/data/data_plane.h"
#include "transport/data/verdict.h"

namespace anchorage::transport {
namespace {

template <typename T>
void Put(TransferFrameBytes& bytes, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

template <typename T>
T Get(const TransferFrameBytes& bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

bool SizesAreAllowed(const TransferFrame& frame) {
  switch (frame.kind) {
    case FrameKind::kAnnounce:
      return frame.extra <= kMaxHeaderBytes && frame.length <= kMaxTransferBytes;
    case FrameKind::kChunk:
      return frame.extra == 0 && frame.length > 0 && frame.length <= kMaxTransferBytes;
    case FrameKind::kVerdict:
      return frame.length <= kMaxVerdictMessageBytes;
    case FrameKind::kAccept:
    case FrameKind::kAbort:
      return frame.extra == 0 && frame.length == 0;
  }
  return false;
}

}  // namespace

TransferFrameBytes Encode(const TransferFrame& frame) {
  TransferFrameBytes bytes;
  Put(bytes, 0, static_cast<uint32_t>(frame.kind));
  Put(bytes, 4, frame.extra);
  Put(bytes, 8, frame.id);
  Put(bytes, 16, frame.length);
  return bytes;
}

absl::StatusOr<TransferFrame> DecodeTransferFrame(const TransferFrameBytes& bytes) {
  const TransferFrame frame{static_cast<FrameKind>(Get<uint32_t>(bytes, 0)),
                            Get<uint32_t>(bytes, 4), Get<uint64_t>(bytes, 8),
                            Get<uint64_t>(bytes, 16)};
  if (!SizesAreAllowed(frame)) {
    return Invalid("a frame of kind %d with %d and %d bytes", static_cast<uint32_t>(frame.kind),
                   frame.extra, frame.length);
  }
  return frame;
}

}  // namespace anchorage::transport
