#include "transport/data/tcp/incoming.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <tuple>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "observe/logging.h"
#include "transport/data/verdict.h"
#include "transport/net/error_code.h"
#include "transport/net/greeting.h"
#include "transport/net/sockets.h"

namespace anchorage::transport {
namespace {

constexpr std::chrono::seconds kHandshakeTimeout(5);
constexpr size_t kScratchBytes = 64 << 10;
// Bytes read in one turn, before anything else on the thread gets its own.
constexpr size_t kTurnBytes = 1 << 20;
// A sender that announces and announces and reads no reply is cut off here.
constexpr size_t kMaxRepliesBytes = 4 << 20;

}  // namespace

Incoming::Incoming(IncomingScope& scope, tcp::socket socket)
    : scope_(scope),
      socket_(std::move(socket)),
      handshake_timer_(scope.io),
      wake_writer_(scope.io, asio::steady_timer::time_point::max()) {
  error_code ignored;
  peer_ = EndpointText(socket_.remote_endpoint(ignored));
}

void Incoming::Start(std::function<void()> greeted, std::function<void()> closed) {
  greeted_callback_ = std::move(greeted);
  closed_callback_ = std::move(closed);
  asio::co_spawn(scope_.io, Run(shared_from_this()), asio::detached);
}

asio::awaitable<void> Incoming::Run(std::shared_ptr<Incoming> self) {
  handshake_timer_.expires_after(kHandshakeTimeout);
  handshake_timer_.async_wait([self](const error_code& error) {
    if (!error) self->Close(absl::DeadlineExceededError("no greeting in time"));
  });
  const absl::Status welcome = co_await Greet();
  handshake_timer_.cancel();
  greeted_callback_();
  if (!welcome.ok()) {
    observe::LogWarning("", "data plane: refused %s: %s", peer_, std::string(welcome.message()));
    co_return Close(welcome);
  }
  ++scope_.counters.open_endpoints;
  asio::co_spawn(scope_.io, WriteReplies(self), asio::detached);
  const absl::Status ended = co_await ReadFrames();
  if (ended.code() == absl::StatusCode::kInvalidArgument) {
    observe::LogWarning("", "data plane: closed %s: %s", peer_, std::string(ended.message()));
  }
  Close(ended);
  --scope_.counters.open_endpoints;
}

asio::awaitable<absl::Status> Incoming::Greet() {
  CO_RETURN_IF_ERROR(TuneSocket(socket_));
  co_return co_await GreetDialer(socket_, Conversation::kData, scope_.options.auth_token);
}

// ------------------------------------------------------------------------------------ reading

asio::awaitable<absl::Status> Incoming::ReadFrames() {
  while (true) {
    TransferFrameBytes bytes;
    const auto [error, n] = co_await asio::async_read(socket_, asio::buffer(bytes), kNoThrow);
    CO_RETURN_IF_ERROR(FromErrorCode(error, "reading"));
    scope_.counters.received_bytes += static_cast<int64_t>(bytes.size());
    CO_ASSIGN_OR_RETURN(const TransferFrame frame, DecodeTransferFrame(bytes));
    switch (frame.kind) {
      case FrameKind::kAnnounce:
        CO_RETURN_IF_ERROR(co_await ReadAnnounce(frame));
        break;
      case FrameKind::kChunk:
        CO_RETURN_IF_ERROR(co_await ReadChunk(frame));
        break;
      case FrameKind::kAbort:
        if (const auto found = entries_.find(frame.id); found != entries_.end()) {
          Quiet(frame.id, found->second, absl::CancelledError("the sender gave up"));
          entries_.erase(frame.id);
        }
        break;
      default:
        co_return Invalid("a sender's frame of kind %d", static_cast<uint32_t>(frame.kind));
    }
    if (replies_.size() > kMaxRepliesBytes) co_return Invalid("a sender that reads no replies");
  }
}

asio::awaitable<absl::Status> Incoming::ReadAnnounce(TransferFrame frame) {
  std::array<std::byte, kMaxHeaderBytes> header;
  const auto [error, n] =
      co_await asio::async_read(socket_, asio::buffer(header.data(), frame.extra), kNoThrow);
  CO_RETURN_IF_ERROR(FromErrorCode(error, "reading a header"));
  if (closed_)
    co_return absl::CancelledError("closed");  // by the writer, while this was on its way
  scope_.counters.received_bytes += static_cast<int64_t>(n);
  if (frame.id <= last_id_) co_return Invalid("transfer %d after %d", frame.id, last_id_);
  last_id_ = frame.id;
  co_return Judge(frame, std::span<const std::byte>(header).first(frame.extra));
}

absl::Status Incoming::Judge(const TransferFrame& frame, std::span<const std::byte> header) {
  absl::StatusOr<Landing> landing = scope_.options.receiver->OnAnnounce(header, frame.length);
  if (!landing.ok()) {
    SendVerdict(frame.id, landing.status());
    return absl::OkStatus();
  }
  ++scope_.counters.landings_in_flight;
  Entry& entry = entries_.emplace(frame.id, Entry{*landing, frame.length}).first->second;
  scope_.by_token.emplace(landing->token, shared_from_this());
  if (landing->region.size() != frame.length) {
    const absl::Status wrong =
        Internal("a region of %d bytes for a transfer of %d", landing->region.size(), frame.length);
    SendVerdict(frame.id, wrong);
    Quiet(frame.id, entry, wrong);
    entries_.erase(frame.id);
  } else if (frame.length == 0) {
    Quiet(frame.id, entry, absl::OkStatus());
    entries_.erase(frame.id);
  } else {
    QueueReply({FrameKind::kAccept, 0, frame.id, 0}, "");
  }
  return absl::OkStatus();
}

// Straight into the region, or to nowhere once the landing is quiet. It may be closed, and the
// entry stays, whenever this waits.
asio::awaitable<absl::Status> Incoming::ReadChunk(TransferFrame frame) {
  const auto found = entries_.find(frame.id);
  if (found == entries_.end()) co_return Invalid("a chunk of unknown transfer %d", frame.id);
  Entry& entry = found->second;
  if (frame.length > entry.length - entry.received) {
    co_return Invalid("a chunk of %d bytes where %d are missing", frame.length,
                      entry.length - entry.received);
  }
  std::array<std::byte, kScratchBytes> scratch;
  size_t turn = 0;
  for (size_t left = frame.length; left > 0;) {
    std::span<std::byte> to =
        entry.quiet ? std::span<std::byte>(scratch) : entry.landing.region.subspan(entry.received);
    to = to.first(std::min(to.size(), left));
    error_code error;
    const size_t n = socket_.read_some(asio::buffer(to.data(), to.size()), error);
    if (error == asio::error::would_block) {
      std::tie(error) = co_await socket_.async_wait(tcp::socket::wait_read, kNoThrow);
      CO_RETURN_IF_ERROR(FromErrorCode(error, "reading a chunk"));
      if (closed_) co_return absl::CancelledError("closed");  // and `entry` is gone
      continue;
    }
    CO_RETURN_IF_ERROR(FromErrorCode(error, "reading a chunk"));
    scope_.counters.received_bytes += static_cast<int64_t>(n);
    entry.received += n;
    left -= n;
    turn += n;
    if (turn >= kTurnBytes) {
      turn = 0;
      co_await asio::post(scope_.io, kNoThrow);
      if (closed_) co_return absl::CancelledError("closed");
    }
  }
  if (entry.received == entry.length) {
    Quiet(frame.id, entry, absl::OkStatus());
    entries_.erase(frame.id);
  }
  co_return absl::OkStatus();
}

void Incoming::Quiet(uint64_t id, Entry& entry, absl::Status landed) {
  if (entry.quiet) return;
  entry.quiet = true;
  scope_.by_token.erase(entry.landing.token);
  --scope_.counters.landings_in_flight;
  TransferReceiver::Reply reply;
  if (landed.ok()) reply = scope_.make_reply(weak_from_this(), id);
  scope_.options.receiver->OnQuiet(entry.landing.token, std::move(landed), std::move(reply));
}

// ------------------------------------------------------------------------------------ replies

void Incoming::CloseLanding(uint64_t token, const absl::Status& reason) {
  for (auto& [id, entry] : entries_) {
    if (entry.quiet || entry.landing.token != token) continue;
    SendVerdict(id, reason);
    return Quiet(id, entry, reason);
  }
}

void Incoming::SendVerdict(uint64_t id, const absl::Status& verdict) {
  const std::string message = VerdictMessage(verdict);
  QueueReply({FrameKind::kVerdict, static_cast<uint32_t>(verdict.code()), id, message.size()},
             message);
}

void Incoming::QueueReply(const TransferFrame& frame, const std::string& message) {
  if (closed_) return;
  const TransferFrameBytes bytes = Encode(frame);
  replies_.append(bytes.data(), bytes.size());
  replies_ += message;
  wake_writer_.cancel();
}

asio::awaitable<void> Incoming::WriteReplies(std::shared_ptr<Incoming> self) {
  while (!closed_) {
    if (replies_.empty()) {
      co_await wake_writer_.async_wait(kNoThrow);
      continue;
    }
    const std::string batch = std::exchange(replies_, {});
    const auto [error, n] = co_await asio::async_write(socket_, asio::buffer(batch), kNoThrow);
    if (error) co_return Close(FromErrorCode(error, "writing a reply"));
    scope_.counters.sent_bytes += static_cast<int64_t>(n);
  }
}

void Incoming::Close(const absl::Status& reason) {
  if (closed_) return;
  closed_ = true;
  error_code ignored;
  socket_.close(ignored);
  handshake_timer_.cancel();
  wake_writer_.cancel();
  for (auto& [id, entry] : entries_) Quiet(id, entry, Annotate(reason, peer_));
  entries_.clear();
  if (closed_callback_) std::exchange(closed_callback_, nullptr)();
}

}  // namespace anchorage::transport
