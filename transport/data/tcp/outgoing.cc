#include "transport/data/tcp/outgoing.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/status_macros.h"
#include "transport/data/verdict.h"
#include "transport/net/error_code.h"
#include "transport/net/greeting.h"

namespace anchorage::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kChunkBytes = 512 << 10;
constexpr size_t kFillerBytes = 16 << 10;
constexpr std::array<std::byte, kFillerBytes> kFiller{};

}  // namespace

Outgoing::Outgoing(asio::io_context& io, std::string address, const DataPlaneOptions& options,
                   Counters& counters)
    : io_(io),
      address_(std::move(address)),
      options_(options),
      counters_(counters),
      connector_(std::make_shared<Connector>(io)),
      socket_(io),
      wake_writer_(io, asio::steady_timer::time_point::max()),
      stall_timer_(io),
      last_io_(steady_clock::now()) {}

void Outgoing::Start(std::function<void()> closed) {
  closed_callback_ = std::move(closed);
  const std::shared_ptr<Outgoing> self = shared_from_this();
  asio::co_spawn(io_, Run(self), asio::detached);
  asio::co_spawn(io_, WatchForStalls(self), asio::detached);
}

asio::awaitable<void> Outgoing::Run(std::shared_ptr<Outgoing> self) {
  if (absl::Status opened = co_await Open(); !opened.ok()) co_return Close(opened);
  ++counters_.open_endpoints;
  asio::co_spawn(io_, WriteFrames(self), asio::detached);
  Close(co_await ReadReplies());
  --counters_.open_endpoints;
}

asio::awaitable<absl::Status> Outgoing::Open() {
  CO_ASSIGN_OR_RETURN(socket_, co_await connector_->Run(address_, options_.stall_timeout_ms));
  if (closed_) co_return absl::CancelledError("stopped");
  CO_RETURN_IF_ERROR(TuneSocket(socket_));
  co_return co_await GreetListener(socket_, Conversation::kData, options_.auth_token);
}

// ---------------------------------------------------------------------------------- transfers

void Outgoing::Send(OutgoingTransfer transfer) {
  const DataPlane::SendId id = transfer.id;
  Transfer entry(std::move(transfer));
  if (transfers_.empty()) last_io_ = entry.last_progress;  // idleness is no stall
  transfers_.emplace(id, std::move(entry));
  waiting_.push_back(id);
  wake_writer_.cancel();
}

bool Outgoing::Cancel(DataPlane::SendId id, absl::Status reason) {
  const auto found = transfers_.find(id);
  if (found == transfers_.end()) return false;
  if (found->second.stage != Stage::kWaiting) QueueAbort(id);
  Finish(found, std::move(reason));
  return true;
}

void Outgoing::QueueAbort(DataPlane::SendId id) {
  const TransferFrameBytes bytes = Encode({FrameKind::kAbort, 0, id, 0});
  control_.append(bytes.data(), bytes.size());
  wake_writer_.cancel();
}

void Outgoing::Finish(std::map<DataPlane::SendId, Transfer>::iterator transfer,
                      absl::Status status) {
  const std::function<void(absl::Status)> done = std::move(transfer->second.done);
  transfers_.erase(transfer);
  done(std::move(status));
}

void Outgoing::Close(const absl::Status& reason) {
  if (closed_) return;
  closed_ = true;
  connector_->Cancel();
  error_code ignored;
  socket_.close(ignored);
  wake_writer_.cancel();
  stall_timer_.cancel();
  // The owner forgets this connection first: what a `done` sends again must go over a new one.
  if (closed_callback_) std::exchange(closed_callback_, nullptr)();
  while (!transfers_.empty()) Finish(transfers_.begin(), Annotate(reason, address_));
}

// ------------------------------------------------------------------------------------ replies

asio::awaitable<absl::Status> Outgoing::ReadReplies() {
  while (true) {
    TransferFrameBytes bytes;
    {
      const auto [error, n] = co_await asio::async_read(socket_, asio::buffer(bytes), kNoThrow);
      CO_RETURN_IF_ERROR(FromErrorCode(error, "reading a reply"));
    }
    CO_ASSIGN_OR_RETURN(const TransferFrame frame, DecodeTransferFrame(bytes));
    std::string message(frame.kind == FrameKind::kVerdict ? frame.length : 0, '\0');
    const auto [error, n] = co_await asio::async_read(socket_, asio::buffer(message), kNoThrow);
    CO_RETURN_IF_ERROR(FromErrorCode(error, "reading a reply"));
    last_io_ = steady_clock::now();
    counters_.received_bytes += static_cast<int64_t>(kTransferFrameBytes + message.size());
    CO_RETURN_IF_ERROR(OnReply(frame, std::move(message)));
  }
}

absl::Status Outgoing::OnReply(const TransferFrame& frame, std::string message) {
  if (frame.kind != FrameKind::kAccept && frame.kind != FrameKind::kVerdict) {
    return Invalid("the receiver sent a frame of kind %d", static_cast<uint32_t>(frame.kind));
  }
  const auto found = transfers_.find(frame.id);
  if (found == transfers_.end()) return absl::OkStatus();  // cancelled meanwhile
  Transfer& transfer = found->second;
  if (frame.kind == FrameKind::kAccept) {
    if (transfer.stage != Stage::kAnnounced || transfer.payload.empty()) {
      return Invalid("the receiver accepted transfer %d at the wrong time", frame.id);
    }
    transfer.stage = Stage::kSending;
    transfer.last_progress = last_io_;
    ready_.push_back(frame.id);
    wake_writer_.cancel();
    return absl::OkStatus();
  }
  const absl::Status verdict = VerdictFromWire(frame.extra, std::move(message));
  const bool all_sent = transfer.sent == transfer.payload.size();
  if (transfer.stage == Stage::kWaiting || (verdict.ok() && !all_sent)) {
    return Invalid("the receiver judged transfer %d before it had all of it", frame.id);
  }
  if (transfer.stage == Stage::kSending && !all_sent) QueueAbort(frame.id);
  Finish(found, verdict);
  return absl::OkStatus();
}

// ------------------------------------------------------------------------------------ writing

std::string Outgoing::NextAnnouncement() {
  const auto found = transfers_.find(waiting_.front());
  waiting_.pop_front();
  if (found == transfers_.end()) return "";
  Transfer& transfer = found->second;
  transfer.stage = transfer.payload.empty() ? Stage::kSent : Stage::kAnnounced;
  transfer.last_progress = steady_clock::now();
  const TransferFrameBytes bytes =
      Encode({FrameKind::kAnnounce, static_cast<uint32_t>(transfer.header.size()), transfer.id,
              transfer.payload.size()});
  return std::string(bytes.data(), bytes.size()) + transfer.header;
}

asio::awaitable<void> Outgoing::WriteFrames(std::shared_ptr<Outgoing> self) {
  while (!closed_) {
    std::string frames = std::exchange(control_, {});
    if (frames.empty() && !waiting_.empty()) frames = NextAnnouncement();
    if (!frames.empty()) {
      const auto [error, n] = co_await asio::async_write(socket_, asio::buffer(frames), kNoThrow);
      if (error) co_return Close(FromErrorCode(error, "writing"));
      counters_.sent_bytes += static_cast<int64_t>(frames.size());
      last_io_ = steady_clock::now();
    } else if (!ready_.empty()) {
      if (absl::Status written = co_await WriteChunk(); !written.ok()) co_return Close(written);
    } else if (waiting_.empty()) {
      co_await wake_writer_.async_wait(kNoThrow);
    }
  }
}

// One chunk of the transfer that was accepted first. The transfer may end whenever this waits.
asio::awaitable<absl::Status> Outgoing::WriteChunk() {
  const DataPlane::SendId id = ready_.front();
  auto found = transfers_.find(id);
  if (found == transfers_.end()) {
    ready_.pop_front();
    co_return absl::OkStatus();
  }
  const size_t chunk = std::min(kChunkBytes, found->second.payload.size() - found->second.sent);
  const TransferFrameBytes header = Encode({FrameKind::kChunk, 0, id, chunk});
  const size_t total = header.size() + chunk;
  for (size_t written = 0; written < total;) {
    found = transfers_.find(id);
    if (found == transfers_.end() && written == 0) break;
    std::array<asio::const_buffer, 2> buffers;
    if (written < header.size()) buffers[0] = asio::buffer(header) + written;
    if (found != transfers_.end()) {
      const size_t rest = std::min(chunk, total - written);
      buffers[1] = asio::buffer(found->second.payload.data() + found->second.sent, rest);
    } else if (written >= header.size()) {
      buffers[1] = asio::buffer(kFiller.data(), std::min(kFillerBytes, total - written));
    }
    error_code error;
    const size_t n = socket_.write_some(buffers, error);
    if (error == asio::error::would_block) {
      std::tie(error) = co_await socket_.async_wait(tcp::socket::wait_write, kNoThrow);
      CO_RETURN_IF_ERROR(FromErrorCode(error, "writing"));
      continue;
    }
    CO_RETURN_IF_ERROR(FromErrorCode(error, "writing"));
    last_io_ = steady_clock::now();
    counters_.sent_bytes += static_cast<int64_t>(n);
    if (found != transfers_.end()) {
      const size_t header_left = header.size() - std::min(header.size(), written);
      found->second.sent += n - std::min(n, header_left);
      found->second.last_progress = last_io_;
    }
    written += n;
  }
  if (found != transfers_.end() && found->second.sent == found->second.payload.size()) {
    found->second.stage = Stage::kSent;
    ready_.pop_front();
  }
  co_await asio::post(io_, kNoThrow);  // a fast link must not keep the thread from anything else
  co_return absl::OkStatus();
}

// ------------------------------------------------------------------------------------- stalls

// What waits for its turn behind others is not stalled while they move.
bool Outgoing::Stalled(const Transfer& transfer, Time now) const {
  const bool waits_for_us = transfer.stage == Stage::kWaiting || transfer.stage == Stage::kSending;
  const Time since =
      waits_for_us ? std::max(transfer.last_progress, last_io_) : transfer.last_progress;
  return now - since > milliseconds(options_.stall_timeout_ms);
}

asio::awaitable<void> Outgoing::WatchForStalls(std::shared_ptr<Outgoing> self) {
  const milliseconds period(std::clamp<int64_t>(options_.stall_timeout_ms / 8, 1, 1'000));
  while (!closed_) {
    stall_timer_.expires_after(period);
    co_await stall_timer_.async_wait(kNoThrow);
    const Time now = steady_clock::now();
    std::vector<DataPlane::SendId> stalled;
    for (const auto& [id, transfer] : transfers_) {
      if (Stalled(transfer, now)) stalled.push_back(id);
    }
    if (stalled.empty()) continue;
    const absl::Status reason = absl::DeadlineExceededError(absl::StrFormat(
        "transfer to %s: no progress for %d ms", address_, options_.stall_timeout_ms));
    // A connection on which nothing moves at all is dead: the next transfer gets a new one.
    if (now - last_io_ > milliseconds(options_.stall_timeout_ms)) co_return Close(reason);
    for (const DataPlane::SendId id : stalled) Cancel(id, reason);
  }
}

}  // namespace anchorage::transport
