#include "transport/data/ucx/landings.h"

#include <set>
#include <string>
#include <utility>

#include "common/status.h"
#include "observe/logging.h"
#include "transport/data/ucx/ucs_status.h"
#include "transport/data/verdict.h"

namespace anchorage::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Serial = UcxEndpoints::Serial;

// The sender ends a landing that is to end; after so long without a move on its connection it seems
// not to. Twice the sender's own grace, in which it moves the neighbours to another connection.
constexpr milliseconds kEndGrace(1'000);

}  // namespace

UcxLandings::UcxLandings(UcxWorker& worker, UcxEndpoints& endpoints, UcxCalls& calls,
                         Counters& counters, TransferReceiver& receiver,
                         std::shared_ptr<UcxCommands> commands)
    : worker_(worker),
      endpoints_(endpoints),
      calls_(calls),
      counters_(counters),
      receiver_(receiver),
      commands_(std::move(commands)) {
  worker.SetHandler(kTransferMessage, OnMessage, this);
}

// ----------------------------------------------------------------------------------------- judging

ucs_status_t UcxLandings::OnMessage(void* self, const void* header, size_t header_size, void* data,
                                    size_t length, const ucp_am_recv_param_t* parameters) {
  auto* landings = static_cast<UcxLandings*>(self);
  const std::optional<ReceivedTransfer> transfer = DecodeTransfer(header, header_size);
  if (transfer) return landings->OnTransfer(*transfer, data, length, *parameters);
  observe::LogWarning("", "ucx: refused a message that is none of ours (%d and %d bytes)",
                      header_size, length);
  const bool rendezvous = (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  return rendezvous ? UCS_ERR_REJECTED : UCS_OK;
}

// `length` is what UCX would write.
ucs_status_t UcxLandings::OnTransfer(const ReceivedTransfer& transfer, void* data, size_t length,
                                     const ucp_am_recv_param_t& parameters) {
  const bool rendezvous = (parameters.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const ucs_status_t refused = rendezvous ? UCS_ERR_REJECTED : UCS_OK;
  const bool can_reply = (parameters.recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
  const Source source{endpoints_.Find(can_reply ? parameters.reply_ep : nullptr),
                      transfer.prefix.sender, transfer.prefix.id};
  if (source.endpoint == 0 || stopped_) return refused;
  const auto refuse = [&](const absl::Status& reason) {
    deferred_.push_back([this, source, reason] { SendVerdict(source, reason); });
    return refused;
  };
  if (transfer.prefix.length != length) {
    return refuse(Invalid("a header that says %d bytes before %d", transfer.prefix.length, length));
  }
  if (rendezvous != (length > 0)) return refuse(Invalid("a payload that came without being asked"));
  counters_.received_bytes += static_cast<int64_t>(sizeof(TransferPrefix) + transfer.header.size());
  const absl::StatusOr<Landing> landing = receiver_.OnAnnounce(transfer.header, length);
  if (!landing.ok()) return refuse(landing.status());
  endpoints_.NoteProgress(source.endpoint);
  receivings_[landing->token] = {
      .source = source, .length = length, .end_reason = {}, .ended_at = {}};
  ++counters_.landings_in_flight;
  if (landing->region.size() != length) {
    const absl::Status wrong =
        Internal("a region of %d bytes for a transfer of %d", landing->region.size(), length);
    deferred_.push_back([this, token = landing->token, wrong] { Quiet(token, wrong); });
    return refuse(wrong);
  }
  if (length > 0) return Accept(*landing, data);
  deferred_.push_back([this, token = landing->token] { OnReceived(token, UCS_OK); });
  return UCS_OK;
}

ucs_status_t UcxLandings::Accept(const Landing& landing, void* data) {
  const uint64_t token = landing.token;
  const ucs_status_t status =
      calls_.Receive(worker_.handle(), data, landing.region,
                     [this, token](ucs_status_t received) { OnReceived(token, received); });
  if (status != UCS_INPROGRESS) {
    deferred_.push_back([this, token, status] { OnReceived(token, status); });
  }
  return UCS_INPROGRESS;
}

unsigned UcxLandings::RunDeferred() {
  const std::vector<std::function<void()>> deferred = std::exchange(deferred_, {});
  for (const std::function<void()>& action : deferred) action();
  return static_cast<unsigned>(deferred.size());
}

// ------------------------------------------------------------------------------------------ ending

void UcxLandings::OnReceived(uint64_t token, ucs_status_t status) {
  const Receiving& receiving = receivings_.at(token);
  endpoints_.NoteProgress(receiving.source.endpoint);
  if (status == UCS_OK) counters_.received_bytes += static_cast<int64_t>(receiving.length);
  Quiet(token, receiving.end_reason.value_or(StatusFromUcs(status, "receiving")));
}

void UcxLandings::Quiet(uint64_t token, absl::Status landed) {
  const Source source = receivings_.at(token).source;
  receivings_.erase(token);
  --counters_.landings_in_flight;
  TransferReceiver::Reply reply;
  if (landed.ok()) {
    // `this` lives when the command runs: none does once `commands_` is closed.
    reply = [this, commands = commands_, source](absl::Status verdict) {
      commands->Post(
          [this, source, verdict = std::move(verdict)] { SendVerdict(source, verdict); });
    };
  }
  receiver_.OnQuiet(token, std::move(landed), std::move(reply));
}

void UcxLandings::SendVerdict(const Source& source, const absl::Status& verdict) {
  const ucp_ep_h endpoint = endpoints_.handle(source.endpoint);
  if (endpoint == nullptr) return;
  struct Reply {
    ReplyHeader header;
    std::string message;
  };
  const auto reply = std::make_shared<Reply>();
  reply->header.code = static_cast<uint32_t>(verdict.code());
  reply->header.id = source.id;
  reply->header.sender = source.sender;
  reply->message = VerdictMessage(verdict);
  counters_.sent_bytes += static_cast<int64_t>(sizeof(ReplyHeader) + reply->message.size());
  calls_.Send(endpoint,
              {.id = kReplyMessage,
               .header = {reinterpret_cast<const char*>(&reply->header), sizeof(ReplyHeader)},
               .payload = std::as_bytes(std::span(reply->message))},
              [reply](ucs_status_t) {});  // keeps it until UCX lets go
}

void UcxLandings::Close(uint64_t token) {
  const auto found = receivings_.find(token);
  if (found == receivings_.end() || found->second.end_reason) return;
  found->second.end_reason = absl::CancelledError("closed by the receiver");
  found->second.ended_at = steady_clock::now();
  SendVerdict(found->second.source, *found->second.end_reason);
}

void UcxLandings::Watch(Time now) {
  std::set<Serial> overdue;
  for (const auto& [token, receiving] : receivings_) {
    const Serial endpoint = receiving.source.endpoint;
    if (receiving.ended_at &&
        now - endpoints_.LastProgress(endpoint, *receiving.ended_at) > kEndGrace) {
      overdue.insert(endpoint);
    }
  }
  if (overdue.empty()) return;
  for (const auto& [token, receiving] : receivings_) {
    if (!receiving.ended_at) overdue.erase(receiving.source.endpoint);
  }
  for (const Serial endpoint : overdue) {
    endpoints_.Break(endpoint, absl::UnavailableError("closed to end a transfer"));
  }
}

void UcxLandings::OnEndpointClosed(Serial endpoint, const absl::Status& reason) {
  for (auto& [token, receiving] : receivings_) {
    if (receiving.source.endpoint == endpoint && !receiving.end_reason) {
      receiving.end_reason = reason;  // OnReceived will end it
    }
  }
}

void UcxLandings::Stop(const absl::Status& reason) {
  stopped_ = true;
  for (auto& [token, receiving] : receivings_) receiving.end_reason = reason;
}

void UcxLandings::QuietAll(const absl::Status& reason) {
  while (!receivings_.empty()) Quiet(receivings_.begin()->first, reason);
}

}  // namespace anchorage::transport
