#include "transport/data/ucx/message.h"

#include <cstring>

#include "transport/data/data_plane.h"

namespace anchorage::transport {

std::string EncodeTransfer(const TransferPrefix& prefix, const std::string& header) {
  std::string bytes(reinterpret_cast<const char*>(&prefix), sizeof(prefix));
  return bytes + header;
}

std::optional<ReceivedTransfer> DecodeTransfer(const void* bytes, size_t size) {
  ReceivedTransfer received;
  TransferPrefix& prefix = received.prefix;
  if (size < sizeof(prefix)) return std::nullopt;
  std::memcpy(&prefix, bytes, sizeof(prefix));
  const bool ours =
      prefix.magic == TransferPrefix().magic && prefix.version == TransferPrefix().version;
  if (!ours || size != sizeof(prefix) + prefix.header_bytes) return std::nullopt;
  if (prefix.header_bytes > kMaxHeaderBytes || prefix.length > kMaxTransferBytes) {
    return std::nullopt;
  }
  received.header = {static_cast<const std::byte*>(bytes) + sizeof(prefix), prefix.header_bytes};
  return received;
}

std::optional<ReplyHeader> DecodeReply(const void* bytes, size_t size) {
  ReplyHeader header;
  if (size != sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes, sizeof(header));
  if (header.magic != ReplyHeader().magic) return std::nullopt;
  return header;
}

}  // namespace anchorage::transport
