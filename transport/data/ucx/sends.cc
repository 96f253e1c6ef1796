#include "transport/data/ucx/sends.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "observe/logging.h"
#include "transport/data/verdict.h"

namespace anchorage::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Serial = UcxEndpoints::Serial;

constexpr size_t kMaxInTransport = 4;
// A transfer that is to end may run on while its endpoint moves, and so long without.
constexpr milliseconds kEndGrace(500);
// How long a refused send waits for the reason, which comes as a message of its own.
constexpr milliseconds kReasonGrace(1'000);
// A transfer cannot be watched byte by byte, so long ones may take longer: all that share a link as
// long as on one of this speed.
constexpr size_t kSlowestBytesPerMs = 16'000;

}  // namespace

UcxSends::UcxSends(UcxWorker& worker, UcxEndpoints& endpoints, UcxCalls& calls, Counters& counters,
                   int64_t stall_timeout_ms)
    : endpoints_(endpoints),
      calls_(calls),
      counters_(counters),
      stall_timeout_(stall_timeout_ms),
      own_id_(RandomU64()) {
  worker.SetHandler(kReplyMessage, OnReply, this);
}

// ----------------------------------------------------------------------------------- a send's life

void UcxSends::Send(const std::string& address, OutgoingTransfer transfer) {
  const absl::StatusOr<SocketAddress> to = ResolveSocketAddress(address);  // numeric: never blocks
  if (!to.ok()) return transfer.done(to.status());
  const absl::StatusOr<Serial> endpoint = endpoints_.Connect(*to);
  if (!endpoint.ok()) return transfer.done(endpoint.status());
  TransferPrefix prefix;
  prefix.header_bytes = static_cast<uint16_t>(transfer.header.size());
  prefix.id = transfer.id;
  prefix.sender = own_id_;
  prefix.length = transfer.payload.size();
  Sending& sending = sendings_[transfer.id];
  sending.message_header = EncodeTransfer(prefix, transfer.header);
  sending.payload = transfer.payload;
  sending.done = std::move(transfer.done);
  sending.endpoint = *endpoint;
  sending.last_progress = steady_clock::now();
  Lane& lane = lanes_[*endpoint];
  lane.address = *to;
  lane.waiting.push_back(transfer.id);
}

void UcxSends::StartWaiting() {
  for (auto& [serial, lane] : lanes_) {
    if (endpoints_.handle(serial) == nullptr) continue;  // broken: OnEndpointClosed follows
    while (!lane.waiting.empty() &&
           lane.num_in_transport < (lane.proven ? kMaxInTransport : size_t{1})) {
      const SendId id = lane.waiting.front();
      lane.waiting.pop_front();
      const auto found = sendings_.find(id);  // not there: cancelled meanwhile
      if (found != sendings_.end()) Start(id, found->second, lane);
    }
  }
}

void UcxSends::Start(SendId id, Sending& sending, Lane& lane) {
  sending.stage = Stage::kInTransport;
  sending.last_progress = steady_clock::now();
  ++lane.num_in_transport;
  lane.bytes_in_transport += sending.payload.size();
  const UcxCalls::Message message{.id = kTransferMessage,
                                  .header = sending.message_header,
                                  .payload = sending.payload,
                                  .rendezvous = !sending.payload.empty(),
                                  .answerable = true};
  const ucs_status_t status = calls_.Send(endpoints_.handle(sending.endpoint), message,
                                          [this, id](ucs_status_t sent) { OnSent(id, sent); });
  if (status != UCS_INPROGRESS) OnSent(id, status);
}

// The payload is its owner's again; `done` may still wait for the verdict.
void UcxSends::OnSent(SendId id, ucs_status_t status) {
  const auto found = sendings_.find(id);
  if (found == sendings_.end()) return;
  Sending& sending = found->second;
  sending.stage = Stage::kSent;
  sending.last_progress = steady_clock::now();
  endpoints_.NoteProgress(sending.endpoint);
  if (const auto lane = lanes_.find(sending.endpoint); lane != lanes_.end()) {
    --lane->second.num_in_transport;
    lane->second.bytes_in_transport -= sending.payload.size();
    lane->second.proven |= status == UCS_OK || status == UCS_ERR_REJECTED;
  }
  if (status == UCS_OK) {
    counters_.sent_bytes +=
        static_cast<int64_t>(sending.message_header.size() + sending.payload.size());
  }
  if (sending.verdict) return Finish(id, *sending.verdict);
  if (sending.end_reason) return Finish(id, *sending.end_reason);
  if (status == UCS_OK) return;
  // Refused, and the reason is on its way; or the endpoint broke, and its error follows.
  sending.end_reason = status == UCS_ERR_REJECTED
                           ? FailedPrecondition("the receiver refused and did not say why")
                           : Unavailable("the transfer broke: %s", ucs_status_string(status));
  sending.ended_at = sending.last_progress;
}

ucs_status_t UcxSends::OnReply(void* self, const void* header, size_t header_size, void* data,
                               size_t length, const ucp_am_recv_param_t* parameters) {
  auto* sends = static_cast<UcxSends*>(self);
  const std::optional<ReplyHeader> reply = DecodeReply(header, header_size);
  const bool rendezvous = (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  if (rendezvous || !reply || length > kMaxVerdictMessageBytes) {
    observe::LogWarning("", "ucx: a reply that is none of ours (%d and %d bytes)", header_size,
                        length);
    return rendezvous ? UCS_ERR_REJECTED : UCS_OK;
  }
  sends->counters_.received_bytes += static_cast<int64_t>(header_size + length);
  sends->OnVerdict(*reply, std::string(static_cast<const char*>(data), length));
  return UCS_OK;
}

void UcxSends::OnVerdict(const ReplyHeader& header, std::string message) {
  const auto found = sendings_.find(header.id);
  if (header.sender != own_id_ || found == sendings_.end()) return;  // ended meanwhile
  Sending& sending = found->second;
  if (sending.stage == Stage::kWaiting) return;  // nobody can have judged it
  sending.last_progress = steady_clock::now();
  endpoints_.NoteProgress(sending.endpoint);
  sending.verdict = VerdictFromWire(header.code, std::move(message));
  if (sending.stage == Stage::kSent) return Finish(header.id, *sending.verdict);
  if (!sending.ended_at) sending.ended_at = sending.last_progress;
}

void UcxSends::Cancel(SendId id) { End(id, absl::CancelledError("cancelled by the sender")); }

void UcxSends::End(SendId id, absl::Status reason) {
  const auto found = sendings_.find(id);
  if (found == sendings_.end()) return;
  Sending& sending = found->second;
  if (sending.stage != Stage::kInTransport) return Finish(id, reason);
  if (sending.end_reason) return;
  sending.end_reason = std::move(reason);
  if (!sending.ended_at) sending.ended_at = steady_clock::now();
}

void UcxSends::Finish(SendId id, const absl::Status& status) {
  const auto sending = sendings_.extract(id);
  sending.mapped().done(status);
}

// ------------------------------------------------------------------------- what goes wrong in time

// While it waits or UCX has it, progress of others on the endpoint shows that the link lives.
bool UcxSends::Stalled(const Sending& sending, Time now) const {
  if (sending.stage == Stage::kSent) return now - sending.last_progress > stall_timeout_;
  const milliseconds for_the_size(lanes_.at(sending.endpoint).bytes_in_transport /
                                  kSlowestBytesPerMs);
  return now - endpoints_.LastProgress(sending.endpoint, sending.last_progress) >
         stall_timeout_ + for_the_size;
}

void UcxSends::Watch(Time now) {
  EndStalled(now);
  EndOverdue(now);
  CloseUnwanted();
}

void UcxSends::EndStalled(Time now) {
  std::vector<SendId> stalled;
  for (const auto& [id, sending] : sendings_) {
    if (!sending.end_reason && Stalled(sending, now)) stalled.push_back(id);
  }
  for (const SendId id : stalled) {
    End(id, absl::DeadlineExceededError(
                absl::StrFormat("no progress for %d ms", stall_timeout_.count())));
  }
}

void UcxSends::EndOverdue(Time now) {
  std::vector<SendId> without_reason;
  std::set<Serial> overdue;
  for (const auto& [id, sending] : sendings_) {
    if (!sending.ended_at) continue;
    if (sending.stage != Stage::kInTransport) {
      if (now - *sending.ended_at > kReasonGrace) without_reason.push_back(id);
    } else if (now - endpoints_.LastProgress(sending.endpoint, *sending.ended_at) > kEndGrace) {
      overdue.insert(sending.endpoint);
    }
  }
  for (const SendId id : without_reason) Finish(id, absl::Status(*sendings_.at(id).end_reason));
  for (const Serial endpoint : overdue) Retire(endpoint);
}

void UcxSends::Retire(Serial endpoint) {
  const auto found = lanes_.find(endpoint);
  if (found == lanes_.end() || std::exchange(found->second.retired, true)) return;
  endpoints_.Retire(endpoint);
  const std::deque<SendId> waiting = std::exchange(found->second.waiting, {});
  if (waiting.empty()) return;
  const SocketAddress address = found->second.address;
  const absl::StatusOr<Serial> next = endpoints_.Connect(address);
  for (const SendId id : waiting) {
    const auto sending = sendings_.find(id);
    if (sending == sendings_.end()) continue;  // cancelled meanwhile
    if (!next.ok()) {
      Finish(id, next.status());
      continue;
    }
    sending->second.endpoint = *next;
    lanes_[*next].address = address;
    lanes_[*next].waiting.push_back(id);
  }
}

// One that UCX has let go of still waits for its verdict or for the reason of a refusal.
bool UcxSends::Wanted(const Sending& sending) {
  return sending.stage != Stage::kInTransport || !sending.ended_at;
}

void UcxSends::CloseUnwanted() {
  std::set<Serial> unwanted;
  for (const auto& [serial, lane] : lanes_) {
    if (lane.retired) unwanted.insert(serial);
  }
  if (unwanted.empty()) return;
  for (const auto& [id, sending] : sendings_) {
    if (Wanted(sending)) unwanted.erase(sending.endpoint);
  }
  for (const Serial endpoint : unwanted) {
    endpoints_.Break(endpoint, absl::CancelledError("closed to end a transfer"));
  }
}

void UcxSends::OnEndpointClosed(Serial endpoint, const absl::Status& reason) {
  lanes_.erase(endpoint);
  std::vector<SendId> over;
  for (auto& [id, sending] : sendings_) {
    if (sending.endpoint != endpoint) continue;
    if (!sending.end_reason) sending.end_reason = reason;
    if (sending.stage != Stage::kInTransport) over.push_back(id);  // else OnSent will end it
  }
  for (const SendId id : over) {
    const Sending& sending = sendings_.at(id);
    Finish(id, absl::Status(sending.verdict.value_or(*sending.end_reason)));
  }
}

void UcxSends::Stop(const absl::Status& reason) {
  for (auto& [id, sending] : sendings_) sending.end_reason = reason;
}

void UcxSends::FinishAll(const absl::Status& reason) {
  while (!sendings_.empty()) Finish(sendings_.begin()->first, reason);
}

}  // namespace anchorage::transport
