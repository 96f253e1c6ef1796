// Private to transport/data/: the frames of the tcp backend. After the greeting (net/greeting.h)
// each direction carries 24 bytes, little endian, and what they announce:
//
//   kind u32 | extra u32 | id u64 | length u64
//
//   sender                                            receiver
//   Announce  extra = header bytes, length = payload, ->
//             then the header
//                                                     <- Accept   payload may be sent
//   Chunk     length bytes of the payload follow      ->
//   Abort     no more of this id will come            ->
//                                                     <- Verdict  extra = status code, length bytes
//                                                        of message follow; at any time, ends the
//                                                        id
//
// Ids grow along a connection. Chunks let a transfer end in the middle without the others noticing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace anchorage::transport {

enum class FrameKind : uint32_t {
  kAnnounce = 1,
  kAccept = 2,
  kChunk = 3,
  kAbort = 4,
  kVerdict = 5
};

struct TransferFrame {
  FrameKind kind = FrameKind::kAbort;
  uint32_t extra = 0;
  uint64_t id = 0;
  uint64_t length = 0;
};

inline constexpr size_t kTransferFrameBytes = 24;
using TransferFrameBytes = std::array<char, kTransferFrameBytes>;

TransferFrameBytes Encode(const TransferFrame& frame);

// InvalidArgument: an unknown kind, or sizes beyond what that kind allows.
absl::StatusOr<TransferFrame> DecodeTransferFrame(const TransferFrameBytes& bytes);

}  // namespace anchorage::transport
