// Private to transport/: a frame is a little-endian uint32 length and one Envelope.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/worker.pb.h"

namespace anchorage::transport {

inline constexpr size_t kFrameLengthBytes = 4;
// A Hello is small, and its sender has shown only the shared token yet.
inline constexpr size_t kMaxHelloBytes = 64 << 10;

// InvalidArgument: the message is longer than kMaxFrameBytes.
absl::StatusOr<std::string> EncodeFrame(const proto::Envelope& message);

// The number of bytes after `length_bytes`. InvalidArgument: 0 or more than `max_bytes`.
absl::StatusOr<size_t> DecodeFrameLength(const unsigned char (&length_bytes)[kFrameLengthBytes],
                                         size_t max_bytes);

// InvalidArgument: not an Envelope, one without a body that we know, or one from another process
// than `sender_boot` (0: any but 0).
absl::StatusOr<proto::Envelope> DecodeFrame(const std::string& bytes, uint64_t sender_boot);

}  // namespace anchorage::transport
