#include "transport/net/greeting.h"

#include <array>
#include <cstring>

#include "common/status.h"
#include "common/status_macros.h"
#include "transport/net/error_code.h"
#include "transport/net/secret.h"

namespace anchorage::transport {
namespace {

constexpr char kMagic[3] = {'A', 'N', 'C'};
constexpr unsigned char kVersion = 1;
constexpr size_t kFixedBytes = 8;

enum class Answer : unsigned char { kWelcome = 0, kWrongToken = 1, kWrongVersion = 2 };

struct Greeting {
  char conversation = 0;
  unsigned char version = 0;
  Answer answer = Answer::kWelcome;
  std::string token;
};

asio::awaitable<absl::Status> Write(tcp::socket& socket, Conversation conversation, Answer answer,
                                    std::string token) {
  std::string bytes(kMagic, sizeof(kMagic));
  bytes += static_cast<char>(conversation);
  bytes += static_cast<char>(kVersion);
  bytes += static_cast<char>(answer);
  bytes += static_cast<char>(token.size() & 0xFF);
  bytes += static_cast<char>(token.size() >> 8);
  bytes += token;
  const auto [error, written] = co_await asio::async_write(socket, asio::buffer(bytes), kNoThrow);
  co_return FromErrorCode(error, "greeting");
}

asio::awaitable<absl::StatusOr<Greeting>> Read(tcp::socket& socket) {
  std::array<unsigned char, kFixedBytes> fixed;
  {
    const auto [error, n] = co_await asio::async_read(socket, asio::buffer(fixed), kNoThrow);
    CO_RETURN_IF_ERROR(FromErrorCode(error, "greeting"));
  }
  if (std::memcmp(fixed.data(), kMagic, sizeof(kMagic)) != 0) {
    co_return Invalid("greeting: the peer does not speak our protocol");
  }
  Greeting greeting;
  greeting.conversation = static_cast<char>(fixed[3]);
  greeting.version = fixed[4];
  greeting.answer = static_cast<Answer>(fixed[5]);
  const size_t token_bytes = fixed[6] | (size_t{fixed[7]} << 8);
  if (token_bytes > kMaxTokenBytes) co_return Invalid("greeting: a token of %d bytes", token_bytes);
  greeting.token.resize(token_bytes);
  const auto [error, n] = co_await asio::async_read(socket, asio::buffer(greeting.token), kNoThrow);
  CO_RETURN_IF_ERROR(FromErrorCode(error, "greeting"));
  co_return greeting;
}

absl::Status CheckVersion(const Greeting& greeting, Conversation conversation) {
  if (greeting.conversation != static_cast<char>(conversation)) {
    return FailedPrecondition("greeting: this is not the peer's %s port",
                              conversation == Conversation::kControl ? "control" : "data");
  }
  if (greeting.version != kVersion) {
    return FailedPrecondition("greeting: the peer speaks version %d, we speak version %d",
                              greeting.version, kVersion);
  }
  return absl::OkStatus();
}

}  // namespace

asio::awaitable<absl::Status> GreetListener(tcp::socket& socket, Conversation conversation,
                                            std::string token) {
  CO_RETURN_IF_ERROR(co_await Write(socket, conversation, Answer::kWelcome, token));
  CO_ASSIGN_OR_RETURN(const Greeting peer, co_await Read(socket));
  CO_RETURN_IF_ERROR(CheckVersion(peer, conversation));
  switch (peer.answer) {
    case Answer::kWelcome:
      break;
    case Answer::kWrongToken:
      co_return absl::UnauthenticatedError("greeting: the peer refused our shared token");
    case Answer::kWrongVersion:
      co_return FailedPrecondition("greeting: the peer refused our protocol version %d", kVersion);
    default:
      co_return Invalid("greeting: unknown answer %d", static_cast<int>(peer.answer));
  }
  if (!SameSecret(peer.token, token)) {
    co_return absl::UnauthenticatedError("greeting: the peer's shared token is not ours");
  }
  co_return absl::OkStatus();
}

asio::awaitable<absl::Status> GreetDialer(tcp::socket& socket, Conversation conversation,
                                          std::string token) {
  CO_ASSIGN_OR_RETURN(const Greeting peer, co_await Read(socket));
  if (!SameSecret(peer.token, token)) {
    co_await Write(socket, conversation, Answer::kWrongToken, "");
    co_return absl::UnauthenticatedError("greeting: the peer's shared token is not ours");
  }
  if (absl::Status same = CheckVersion(peer, conversation); !same.ok()) {
    co_await Write(socket, conversation, Answer::kWrongVersion, "");
    co_return same;
  }
  co_return co_await Write(socket, conversation, Answer::kWelcome, token);
}

}  // namespace anchorage::transport
