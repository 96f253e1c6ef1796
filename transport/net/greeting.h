// Private to transport/: the first bytes on every TCP connection of ours, so that a stranger's
// bytes reach no parser. Each side sends
//
//   "ANC" | conversation u8 | version u8 | answer u8 | token length u16 LE | token
//
// the dialer first. The listener compares the shared token before it reads anything else and tells
// a peer with a wrong one so in its answer, without a token of its own.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "transport/net/asio.h"

namespace anchorage::transport {

enum class Conversation : char { kControl = 'C', kData = 'D' };

// Longest shared token.
inline constexpr size_t kMaxTokenBytes = 1024;

// The dialer's part. Unauthenticated: one of the two sides does not like the other's token.
// FailedPrecondition: another version or another conversation. Unavailable: the connection broke.
asio::awaitable<absl::Status> GreetListener(tcp::socket& socket, Conversation conversation,
                                            std::string token);

// The listener's part; the same statuses, and InvalidArgument for bytes that are not ours at all.
asio::awaitable<absl::Status> GreetDialer(tcp::socket& socket, Conversation conversation,
                                          std::string token);

}  // namespace anchorage::transport
