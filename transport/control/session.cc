#include "transport/control/session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/status_macros.h"
#include "transport/control/frame.h"
#include "transport/net/error_code.h"
#include "transport/net/greeting.h"

namespace anchorage::transport {
namespace {

// Frames gathered into one write.
constexpr size_t kMaxBatchFrames = 64;

// Keeps the token in the coroutine's frame, so that it leaves when the frame is destroyed.
asio::awaitable<void> Counted(TaskGroup::Token token, asio::awaitable<void> coroutine) {
  co_await std::move(coroutine);
}

}  // namespace

void SessionScope::Spawn(asio::awaitable<void> coroutine) {
  TaskGroup::Token token = tasks.Enter();
  if (!token) return;
  asio::co_spawn(io, Counted(std::move(token), std::move(coroutine)), asio::detached);
}

void SessionScope::Stop(bool tell, std::function<void()> stopped) {
  if (handler == nullptr) return;
  const std::set<std::shared_ptr<Session>> open = std::exchange(sessions, {});
  for (const std::shared_ptr<Session>& session : open) session->Stop(tell);
  handler = nullptr;
  tasks.Close(std::move(stopped));
}

Session::Session(std::shared_ptr<SessionScope> scope, tcp::socket socket, SessionRole role,
                 std::string address)
    : scope_(std::move(scope)),
      socket_(std::move(socket)),
      role_(role),
      peer_address_(std::move(address)),
      handshake_timer_(scope_->io),
      wake_writer_(scope_->io, asio::steady_timer::time_point::max()),
      tick_timer_(scope_->io) {}

asio::awaitable<absl::Status> Session::Handshake() {
  const std::shared_ptr<Session> self = shared_from_this();
  if (scope_->handler == nullptr) co_return absl::CancelledError("stopped");
  scope_->sessions.insert(self);
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  ArmHandshakeTimeout();
  absl::Status agreed = co_await Agree();
  handshake_timer_.cancel();
  if (!agreed.ok()) Down(std::move(agreed));
  if (state_ == State::kHandshake) co_return absl::OkStatus();
  scope_->sessions.erase(self);
  co_return *end_reason_;
}

asio::awaitable<absl::Status> Session::Serve() {
  const std::shared_ptr<Session> self = shared_from_this();
  state_ = State::kUp;
  was_up_ = true;
  scope_->Spawn(WriteFrames(self));
  scope_->Spawn(Tick(self));
  scope_->handler->OnUp(self);
  Down(co_await ReadMessages());
  scope_->sessions.erase(self);
  co_return *end_reason_;
}

// ------------------------------------------------------------------------------------- handshake

void Session::ArmHandshakeTimeout() {
  handshake_timer_.expires_after(std::chrono::milliseconds(scope_->options.handshake_timeout_ms));
  handshake_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->state_ != State::kHandshake) return;
    self->Down(absl::DeadlineExceededError("the peer did not finish the handshake in time"));
  });
}

// Both sides send Hello, judge the other's, and say so with a heartbeat or a Reject: a channel is
// up only when both have agreed.
asio::awaitable<absl::Status> Session::Agree() {
  const std::string& token = scope_->own.token();
  absl::Status greeted;
  if (role_ == SessionRole::kDialer) {
    greeted = co_await GreetListener(socket_, Conversation::kControl, token);
  } else {
    greeted = co_await GreetDialer(socket_, Conversation::kControl, token);
  }
  CO_RETURN_IF_ERROR(greeted);

  proto::Envelope hello;
  *hello.mutable_hello() = scope_->own;
  hello.mutable_hello()->clear_token();  // was shown already, before anything was parsed
  CO_RETURN_IF_ERROR(co_await WriteOne(std::move(hello)));
  CO_RETURN_IF_ERROR(co_await JudgePeer());

  CO_ASSIGN_OR_RETURN(const proto::Envelope verdict, co_await ReadFrame(kMaxHelloBytes));
  if (verdict.has_reject()) {
    co_return FailedPrecondition("the peer refused us: %s", verdict.reject().reason());
  }
  if (!verdict.has_heartbeat()) co_return Invalid("the peer broke off the handshake");
  co_return absl::OkStatus();
}

asio::awaitable<absl::Status> Session::JudgePeer() {
  CO_ASSIGN_OR_RETURN(proto::Envelope message, co_await ReadFrame(kMaxHelloBytes));
  if (!message.has_hello()) co_return Invalid("the peer's first message is no Hello");
  peer_boot_ = message.sender_boot();
  peer_ = std::move(*message.mutable_hello());
  peer_.set_token(scope_->own.token());  // it has shown this one
  if (scope_->handler == nullptr) co_return absl::CancelledError("stopped");
  if (absl::Status judged = scope_->handler->OnHello(peer_); !judged.ok()) {
    proto::Envelope reject;
    reject.mutable_reject()->set_reason(std::string(judged.message()));
    CO_RETURN_IF_ERROR(co_await WriteOne(std::move(reject)));
    co_await DiscardUntilClosed();
    co_return Annotate(judged, "refused the peer");
  }
  co_return co_await WriteOne(HeartbeatMessage());
}

// Ends our half and waits for the peer to end its own: closing a socket that has unread bytes would
// reset the connection and could take our last words with it.
asio::awaitable<void> Session::DiscardUntilClosed() {
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  char scratch[4096];
  while (!error) {
    std::tie(error, std::ignore) =
        co_await socket_.async_read_some(asio::buffer(scratch), kNoThrow);
  }
}

// ---------------------------------------------------------------------------------------- reading

asio::awaitable<absl::Status> Session::ReadBytes(char* data, size_t size) {
  while (size > 0) {
    const auto [error, got] = co_await socket_.async_read_some(asio::buffer(data, size), kNoThrow);
    CO_RETURN_IF_ERROR(FromErrorCode(error, "reading"));
    heard_ = true;
    data += got;
    size -= got;
  }
  co_return absl::OkStatus();
}

asio::awaitable<absl::StatusOr<proto::Envelope>> Session::ReadFrame(size_t max_bytes) {
  unsigned char length_bytes[kFrameLengthBytes];
  CO_RETURN_IF_ERROR(
      co_await ReadBytes(reinterpret_cast<char*>(length_bytes), sizeof(length_bytes)));
  CO_ASSIGN_OR_RETURN(const size_t length, DecodeFrameLength(length_bytes, max_bytes));
  std::string bytes(length, '\0');
  CO_RETURN_IF_ERROR(co_await ReadBytes(bytes.data(), bytes.size()));
  co_return DecodeFrame(bytes, peer_boot_);
}

asio::awaitable<absl::Status> Session::ReadMessages() {
  while (true) {
    absl::StatusOr<proto::Envelope> message = co_await ReadFrame(kMaxFrameBytes);
    if (!message.ok()) co_return message.status();
    if (message->has_heartbeat()) continue;
    if (message->has_reject()) {
      co_return FailedPrecondition("the peer refused us: %s", message->reject().reason());
    }
    if (message->has_hello()) co_return Invalid("a second Hello");
    if (state_ != State::kUp || scope_->handler == nullptr) continue;  // closing: nobody listens
    scope_->handler->OnMessage(shared_from_this(), *std::move(message));
  }
}

// ---------------------------------------------------------------------------------------- writing

proto::Envelope Session::HeartbeatMessage() {
  proto::Envelope message;
  message.mutable_heartbeat()->set_sequence(heartbeat_sequence_++);
  return message;
}

asio::awaitable<absl::Status> Session::WriteOne(proto::Envelope message) {
  message.set_sender_boot(scope_->own_boot);
  CO_ASSIGN_OR_RETURN(const std::string frame, EncodeFrame(message));
  const auto [error, written] = co_await asio::async_write(socket_, asio::buffer(frame), kNoThrow);
  co_return FromErrorCode(error, "writing");
}

void Session::Send(proto::Envelope message) {
  if (state_ == State::kUp) Queue(std::move(message));
}

void Session::Queue(proto::Envelope message) {
  message.set_sender_boot(scope_->own_boot);
  absl::StatusOr<std::string> frame = EncodeFrame(message);
  if (!frame.ok()) return DownLater(frame.status());
  if (outbox_bytes_ + frame->size() > scope_->options.max_outbox_bytes) {
    return DownLater(
        Unavailable("the peer does not read: %d bytes are waiting for it", outbox_bytes_));
  }
  outbox_bytes_ += frame->size();
  outbox_.push_back(*std::move(frame));
  wake_writer_.cancel();
}

asio::awaitable<void> Session::WriteFrames(std::shared_ptr<Session> self) {
  while (state_ != State::kClosed) {
    if (outbox_.empty()) {
      if (state_ == State::kClosing) {
        error_code ignored;
        socket_.shutdown(tcp::socket::shutdown_send, ignored);
      }
      co_await wake_writer_.async_wait(kNoThrow);
      continue;
    }
    std::vector<std::string> batch;
    std::vector<asio::const_buffer> buffers;
    size_t batch_bytes = 0;
    while (!outbox_.empty() && batch.size() < kMaxBatchFrames) {
      batch_bytes += outbox_.front().size();
      batch.push_back(std::move(outbox_.front()));
      outbox_.pop_front();
    }
    for (const std::string& frame : batch) buffers.push_back(asio::buffer(frame));
    const auto [error, written] = co_await asio::async_write(socket_, buffers, kNoThrow);
    outbox_bytes_ -= batch_bytes;
    if (error) co_return Down(FromErrorCode(error, "writing"));
  }
}

// --------------------------------------------------------------------------------------- liveness

// Counts ticks without a byte instead of comparing times: a loop that was held up itself for long
// has missed one tick, and reads what has come meanwhile before the next.
asio::awaitable<void> Session::Tick(std::shared_ptr<Session> self) {
  const ControlOptions& options = scope_->options;
  while (state_ != State::kClosed) {
    tick_timer_.expires_after(std::chrono::milliseconds(options.heartbeat_interval_ms));
    co_await tick_timer_.async_wait(kNoThrow);
    if (state_ == State::kClosed) co_return;
    missed_ticks_ = heard_ ? 0 : missed_ticks_ + 1;
    heard_ = false;
    if (missed_ticks_ >= options.missed_heartbeats) {
      co_return Down(Unavailable("nothing was heard of the peer for %d ms",
                                 missed_ticks_ * options.heartbeat_interval_ms));
    }
    if (state_ == State::kClosing) {
      if (++closing_ticks_ >= options.missed_heartbeats) co_return Down(*end_reason_);
    } else {
      Queue(HeartbeatMessage());
    }
  }
}

// ----------------------------------------------------------------------------------------- ending

void Session::Close(absl::Status reason) {
  if (state_ != State::kUp) return;
  state_ = State::kClosing;
  if (!end_reason_) end_reason_ = std::move(reason);
  wake_writer_.cancel();
}

void Session::Stop(bool tell) {
  const absl::Status reason = absl::CancelledError("stopped by this side");
  if (!tell) down_told_ = true;
  if (state_ == State::kHandshake) return Down(reason);
  Close(reason);
  if (end_reason_) TellDown(*end_reason_);
}

void Session::DownLater(absl::Status reason) {
  if (state_ != State::kUp) return;
  state_ = State::kClosing;  // takes no more messages
  end_reason_ = Annotate(reason, peer_address_);
  asio::post(scope_->io, [self = shared_from_this()] { self->Down(*self->end_reason_); });
}

void Session::Down(absl::Status reason) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  if (!end_reason_) end_reason_ = Annotate(reason, peer_address_);
  error_code ignored;
  socket_.close(ignored);
  handshake_timer_.cancel();
  wake_writer_.cancel();
  tick_timer_.cancel();
  TellDown(*end_reason_);
}

void Session::TellDown(const absl::Status& reason) {
  if (down_told_ || !was_up_ || scope_->handler == nullptr) return;
  down_told_ = true;
  scope_->handler->OnDown(shared_from_this(), reason);
}

}  // namespace anchorage::transport
