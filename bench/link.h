// One way to carry bytes from a sender to a receiver in this process, for comparison with others.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace anchorage::bench {

class Link {
 public:
  virtual ~Link() = default;

  // Sends `payload` `count` times at once, each behind a header of kLinkHeaderBytes, and waits
  // until the receiver has acknowledged all of them.
  virtual absl::Status Carry(std::span<const std::byte> payload, size_t count) = 0;

  // What arrived last; only between two calls of Carry.
  virtual std::span<const std::byte> arrived(size_t length) const = 0;

  virtual std::string Describe() const = 0;  // what is in use
};

inline constexpr size_t kLinkHeaderBytes = 64;
inline constexpr size_t kLinkMaxBytes = size_t{16} << 20;  // of one payload
inline constexpr size_t kLinkMaxAtOnce = 8;

// Two data planes of `kind`, "tcp" or "ucx", over loopback.
absl::StatusOr<std::unique_ptr<Link>> MakePlaneLink(const std::string& kind);

// Two threads with one blocking TCP connection over loopback: header and payload one way, one byte
// back. Nothing is checked, queued or timed; what it takes is what the system takes.
absl::StatusOr<std::unique_ptr<Link>> MakePlainSocketLink();

}  // namespace anchorage::bench
