// Private to transport/data/: what stands in the active-message headers of the ucx backend. Host
// byte order with a magic number: a peer of another order is refused like any stranger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace anchorage::transport {

// Active-message ids are part of the wire.
inline constexpr unsigned kTransferMessage = 7;
inline constexpr unsigned kReplyMessage = 8;

// Before the caller's header; the payload follows by rendezvous.
struct TransferPrefix {
  uint32_t magic = 0x31434E41;  // "ANC1"
  uint16_t version = 1;
  uint16_t header_bytes = 0;
  uint64_t id = 0;      // of the sender's transfer
  uint64_t sender = 0;  // one data plane's life
  uint64_t length = 0;  // payload bytes
};
static_assert(sizeof(TransferPrefix) == 32);

// Ends a transfer; the message is the payload.
struct ReplyHeader {
  uint32_t magic = 0x32434E41;  // "ANC2"
  uint32_t code = 0;
  uint64_t id = 0;
  uint64_t sender = 0;  // as in the transfer
};
static_assert(sizeof(ReplyHeader) == 24);

std::string EncodeTransfer(const TransferPrefix& prefix, const std::string& header);

// Empty: not ours, another version, a wrong size, or limits that are broken.
struct ReceivedTransfer {
  TransferPrefix prefix;
  std::span<const std::byte> header;
};
std::optional<ReceivedTransfer> DecodeTransfer(const void* bytes, size_t size);
std::optional<ReplyHeader> DecodeReply(const void* bytes, size_t size);

}  // namespace anchorage::transport
