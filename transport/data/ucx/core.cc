#include "transport/data/ucx/core.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/ids.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "observe/host_port.h"
#include "observe/logging.h"
#include "transport/data/ucx/ucs_status.h"
#include "transport/data/verdict.h"

namespace anchorage::transport {
namespace {

using std::chrono::milliseconds;

constexpr int kMaxProgressCalls = 16;
constexpr milliseconds kMaxProgressTime(1);
constexpr int kMaxSleepMs = 50;
constexpr milliseconds kWatchPeriod(10);
// A transfer that is to end may run on while its endpoint moves; after so long without, it is
// closed.
constexpr milliseconds kEndGrace(500);
constexpr size_t kMaxInTransport = 4;
// How long a refused send waits for the reason, which comes as a message of its own.
constexpr milliseconds kReasonGrace(1'000);
// A transfer cannot be watched byte by byte, so a long one may take longer: as long as on a link of
// this speed.
constexpr size_t kSlowestBytesPerMs = 16'000;
constexpr std::chrono::seconds kShutdownLimit(10);
// Senders that connect to us: strangers can hold no more than so many descriptors.
constexpr size_t kMaxEndpoints = 4096;

const absl::Status& StoppedStatus() {
  static const absl::Status* status =
      new absl::Status(absl::StatusCode::kCancelled, "the data plane was shut down");
  return *status;
}

ucp_request_param_t Parameters(void* operation, uint32_t flags) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.user_data = operation;
  parameters.flags = flags;
  return parameters;
}

}  // namespace

UcxCore::UcxCore(const DataPlaneOptions& options, std::unique_ptr<UcxWorker> worker)
    : options_(options), own_id_(RandomU64()), worker_(std::move(worker)) {
  const auto handle = [&](unsigned id, ucp_am_recv_callback_t callback) {
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    handler.id = id;
    handler.cb = callback;
    handler.arg = this;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    ucp_worker_set_am_recv_handler(worker_->handle(), &handler);
  };
  handle(kReplyMessage, ReplyCallback);
  if (options_.receiver != nullptr) handle(kTransferMessage, TransferCallback);
}

absl::Status UcxCore::Listen() {
  ASSIGN_OR_RETURN(const SocketAddress address, ResolveSocketAddress(options_.listen));
  ucp_listener_params_t parameters{};
  parameters.field_mask =
      UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  parameters.sockaddr = address.ucs();
  parameters.conn_handler = {OnConnection, this};
  RETURN_IF_ERROR(StatusFromUcs(ucp_listener_create(worker_->handle(), &parameters, &listener_),
                                "listening on " + options_.listen));
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  RETURN_IF_ERROR(
      StatusFromUcs(ucp_listener_query(listener_, &attributes), "listening on " + options_.listen));
  listen_address_ = SocketAddress{attributes.sockaddr, address.size}.ToString();
  return absl::OkStatus();
}

// --------------------------------------------------------------------------------------- the loop

bool UcxCore::Post(std::function<void()> command) {
  MutexLock lock(mutex_);
  if (shut_down_) return false;
  commands_.push_back(std::move(command));
  ucp_worker_signal(worker_->handle());
  return true;
}

bool UcxCore::PostShutdown() {
  MutexLock lock(mutex_);
  if (std::exchange(shut_down_, true)) return false;
  commands_.push_back([this] { shutting_down_ = true; });
  ucp_worker_signal(worker_->handle());
  return true;
}

bool UcxCore::HasCommands() {
  MutexLock lock(mutex_);
  return !commands_.empty();
}

void UcxCore::RunCommands() {
  std::vector<std::function<void()>> batch;
  {
    MutexLock lock(mutex_);
    batch.swap(commands_);
  }
  for (const std::function<void()>& command : batch) command();
}

void UcxCore::Run() {
  while (!shutting_down_) {
    RunCommands();
    StartWaitingSends();
    const unsigned progressed = Progress();
    WatchDeadlines();
    const bool closed = CloseBrokenEndpoints();
    if (progressed == 0 && !closed && !shutting_down_) Sleep();
  }
  ShutDown();
}

unsigned UcxCore::Progress() {
  const Time end = Clock::now() + kMaxProgressTime;
  unsigned total = 0;
  for (int call = 0; call < kMaxProgressCalls; ++call) {
    const unsigned events = ucp_worker_progress(worker_->handle());
    total += events;
    if (events == 0 || Clock::now() > end) break;
  }
  const std::vector<std::function<void()>> deferred = std::exchange(deferred_, {});
  for (const std::function<void()>& action : deferred) action();
  return total + static_cast<unsigned>(deferred.size());
}

// Armed only after a progress call that found nothing. A command that is posted from now on signals
// the worker, which ends the poll.
void UcxCore::Sleep() {
  const ucs_status_t armed = ucp_worker_arm(worker_->handle());
  if (armed == UCS_ERR_BUSY || HasCommands()) return;
  const bool watching = !sendings_.empty() || !receivings_.empty();
  pollfd descriptor{worker_->event_fd(), POLLIN, 0};
  poll(&descriptor, 1, watching ? static_cast<int>(kWatchPeriod.count()) : kMaxSleepMs);
}

void UcxCore::WatchDeadlines() {
  const Time now = Clock::now();
  if (now < next_watch_) return;
  next_watch_ = now + kWatchPeriod;
  std::vector<DataPlane::SendId> stalled;
  for (const auto& [id, sending] : sendings_) {
    if (!sending.end_reason && Stalled(sending, now)) stalled.push_back(id);
  }
  for (const DataPlane::SendId id : stalled) {
    EndSending(id, absl::DeadlineExceededError(
                       absl::StrFormat("no progress for %d ms", options_.stall_timeout_ms)));
  }
  const absl::Status closed = absl::UnavailableError("closed to end another transfer");
  std::vector<DataPlane::SendId> without_reason;
  for (const auto& [id, sending] : sendings_) {
    if (!sending.ended_at) continue;
    if (sending.stage != Stage::kInTransport) {
      if (now - *sending.ended_at > kReasonGrace) without_reason.push_back(id);
    } else if (now - LastProgress(sending.endpoint, *sending.ended_at) > kEndGrace) {
      Break(sending.endpoint, closed);
    }
  }
  for (const DataPlane::SendId id : without_reason) Finish(id, *sendings_.at(id).end_reason);
  for (const auto& [token, receiving] : receivings_) {
    if (!receiving.ended_at) continue;
    if (now - LastProgress(receiving.endpoint, *receiving.ended_at) > kEndGrace) {
      Break(receiving.endpoint, closed);
    }
  }
}

UcxCore::Time UcxCore::LastProgress(uint64_t endpoint, Time since) const {
  const auto found = endpoints_.find(endpoint);
  return found == endpoints_.end() ? since : std::max(since, found->second.last_progress);
}

void UcxCore::NoteProgress(uint64_t endpoint) {
  const auto found = endpoints_.find(endpoint);
  if (found != endpoints_.end()) found->second.last_progress = Clock::now();
}

// The worker is driven until UCX has let go of all memory; only then may its owners have it back.
void UcxCore::ShutDown() {
  if (listener_ != nullptr) ucp_listener_destroy(listener_);
  for (auto& [id, sending] : sendings_) sending.end_reason = StoppedStatus();
  for (auto& [token, receiving] : receivings_) receiving.end_reason = StoppedStatus();
  for (auto& [serial, endpoint] : endpoints_) Break(serial, StoppedStatus());
  const Time limit = Clock::now() + kShutdownLimit;
  while ((num_operations_ > 0 || !endpoints_.empty()) && Clock::now() < limit) {
    const bool closed = CloseBrokenEndpoints();
    if (Progress() == 0 && !closed) Sleep();
  }
  RunCommands();  // what was posted before the shutdown and behind it in the queue
  if (num_operations_ > 0) {
    observe::LogError("", "ucx: %d operations have not ended after %d s", num_operations_,
                      kShutdownLimit.count());
  }
  while (!sendings_.empty()) Finish(sendings_.begin()->first, StoppedStatus());
  while (!receivings_.empty()) Quiet(receivings_.begin()->first, StoppedStatus());
}

// -------------------------------------------------------------------------------------- endpoints

void UcxCore::OnConnection(ucp_conn_request_h request, void* self) {
  auto* core = static_cast<UcxCore*>(self);
  if (core->shutting_down_ || core->endpoints_.size() >= kMaxEndpoints) {
    ucp_listener_reject(core->listener_, request);
    return;
  }
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.conn_request = request;
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {OnEndpointError, core};
  ucp_ep_h handle = nullptr;
  const ucs_status_t status = ucp_ep_create(core->worker_->handle(), &parameters, &handle);
  if (status != UCS_OK) {
    observe::LogWarning("", "ucx: accepting a connection: %s", ucs_status_string(status));
    return;
  }
  core->AddEndpoint(handle, "");
}

absl::StatusOr<uint64_t> UcxCore::Connect(const SocketAddress& address) {
  const std::string text = address.ToString();
  if (const auto found = by_address_.find(text); found != by_address_.end()) return found->second;
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS |
                          UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  parameters.sockaddr = address.ucs();
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {OnEndpointError, this};
  ucp_ep_h handle = nullptr;
  const ucs_status_t status = ucp_ep_create(worker_->handle(), &parameters, &handle);
  if (status != UCS_OK) return Unavailable("connecting to %s: %s", text, ucs_status_string(status));
  return AddEndpoint(handle, text);
}

uint64_t UcxCore::AddEndpoint(ucp_ep_h handle, std::string address) {
  const uint64_t serial = next_endpoint_++;
  if (!address.empty()) by_address_[address] = serial;
  by_handle_[handle] = serial;
  endpoints_[serial] = Endpoint{handle, std::move(address), false, {}, Clock::now(), {}, 0, false};
  ++counters_.open_endpoints;
  return serial;
}

// UCX's own callback: only marks. An endpoint is never closed inside it.
void UcxCore::OnEndpointError(void* self, ucp_ep_h handle, ucs_status_t status) {
  auto* core = static_cast<UcxCore*>(self);
  const auto found = core->by_handle_.find(handle);
  if (found == core->by_handle_.end()) return;
  const absl::Status reason = absl::UnavailableError(
      absl::StrFormat("the connection broke: %s", ucs_status_string(status)));
  core->Break(found->second, reason);
}

void UcxCore::Break(uint64_t serial, absl::Status reason) {
  const auto found = endpoints_.find(serial);
  if (found == endpoints_.end() || found->second.broken) return;
  found->second.broken = true;
  found->second.reason = std::move(reason);
  // The next transfer to that address gets a new endpoint.
  const auto named = by_address_.find(found->second.address);
  if (named != by_address_.end() && named->second == serial) by_address_.erase(named);
}

// Those that UCX still holds end in their own callbacks, which the close brings about.
bool UcxCore::CloseBrokenEndpoints() {
  std::vector<uint64_t> broken;
  for (const auto& [serial, endpoint] : endpoints_) {
    if (endpoint.broken) broken.push_back(serial);
  }
  for (const uint64_t serial : broken) {
    const Endpoint endpoint = endpoints_.at(serial);
    CloseByForce(endpoint.handle);
    std::vector<std::pair<DataPlane::SendId, absl::Status>> waiting;
    for (auto& [id, sending] : sendings_) {
      if (sending.endpoint != serial) continue;
      if (!sending.end_reason) sending.end_reason = Annotate(endpoint.reason, endpoint.address);
      if (sending.stage != Stage::kInTransport) {
        waiting.emplace_back(id, sending.verdict.value_or(*sending.end_reason));
      }
    }
    for (auto& [token, receiving] : receivings_) {
      if (receiving.endpoint == serial && !receiving.end_reason) {
        receiving.end_reason = endpoint.reason;
      }
    }
    for (auto& [id, status] : waiting) Finish(id, std::move(status));
    endpoints_.erase(serial);
    by_handle_.erase(endpoint.handle);
    --counters_.open_endpoints;
  }
  return !broken.empty();
}

void UcxCore::CloseByForce(ucp_ep_h handle) {
  Operation* operation = NewOperation(0);
  ucp_request_param_t parameters = Parameters(operation, UCP_EP_CLOSE_FLAG_FORCE);
  parameters.cb.send = DropOperation;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(handle, &parameters);
  if (!UCS_PTR_IS_PTR(request)) EndOperation(operation);
}

// ------------------------------------------------------------------------------------- operations

UcxCore::Operation* UcxCore::NewOperation(uint64_t key) {
  ++num_operations_;
  auto* operation = new Operation();
  operation->core = this;
  operation->key = key;
  return operation;
}

void UcxCore::EndOperation(Operation* operation) {
  --num_operations_;
  delete operation;
}

void UcxCore::DropOperation(void* request, ucs_status_t status, void* user_data) {
  auto* operation = static_cast<Operation*>(user_data);
  operation->core->EndOperation(operation);
  ucp_request_free(request);
}

// ---------------------------------------------------------------------------------------- sending

void UcxCore::Send(DataPlane::SendId id, Outgoing transfer) {
  const absl::StatusOr<uint64_t> endpoint =
      shutting_down_ ? StoppedStatus() : Connect(transfer.address);
  if (!endpoint.ok()) {
    --counters_.sends_in_flight;
    return transfer.done(endpoint.status());
  }
  TransferPrefix prefix;
  prefix.header_bytes = static_cast<uint16_t>(transfer.header.size());
  prefix.id = id;
  prefix.sender = own_id_;
  prefix.length = transfer.payload.size();
  Sending& sending = sendings_[id];
  sending.message_header = EncodeTransfer(prefix, transfer.header);
  sending.payload = transfer.payload;
  sending.done = std::move(transfer.done);
  sending.endpoint = *endpoint;
  sending.last_progress = Clock::now();
  endpoints_.at(*endpoint).waiting.push_back(id);
}

void UcxCore::StartWaitingSends() {
  for (auto& [serial, endpoint] : endpoints_) {
    while (!endpoint.broken && !endpoint.waiting.empty() &&
           endpoint.num_in_transport < (endpoint.proven ? kMaxInTransport : 1)) {
      const DataPlane::SendId id = endpoint.waiting.front();
      endpoint.waiting.pop_front();
      const auto found = sendings_.find(id);  // not there: cancelled meanwhile
      if (found != sendings_.end()) StartSend(id, found->second, endpoint);
    }
  }
}

void UcxCore::StartSend(DataPlane::SendId id, Sending& sending, Endpoint& endpoint) {
  sending.stage = Stage::kInTransport;
  sending.last_progress = Clock::now();
  ++endpoint.num_in_transport;
  Operation* operation = NewOperation(id);
  const uint32_t protocol =
      sending.payload.empty() ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  ucp_request_param_t parameters = Parameters(operation, UCP_AM_SEND_FLAG_REPLY | protocol);
  parameters.cb.send = SendCallback;
  const ucs_status_ptr_t request = ucp_am_send_nbx(
      endpoint.handle, kTransferMessage, sending.message_header.data(),
      sending.message_header.size(), sending.payload.data(), sending.payload.size(), &parameters);
  if (UCS_PTR_IS_PTR(request)) return;
  EndOperation(operation);
  OnSent(id, UCS_PTR_RAW_STATUS(request));
}

void UcxCore::SendCallback(void* request, ucs_status_t status, void* user_data) {
  auto* operation = static_cast<Operation*>(user_data);
  UcxCore* core = operation->core;
  const DataPlane::SendId id = operation->key;
  core->EndOperation(operation);
  ucp_request_free(request);
  core->OnSent(id, status);
}

// The payload is its owner's again; `done` may still wait for the verdict.
void UcxCore::OnSent(DataPlane::SendId id, ucs_status_t status) {
  const auto found = sendings_.find(id);
  if (found == sendings_.end()) return;
  Sending& sending = found->second;
  sending.stage = Stage::kSent;
  sending.last_progress = Clock::now();
  if (const auto at = endpoints_.find(sending.endpoint); at != endpoints_.end()) {
    --at->second.num_in_transport;
    at->second.last_progress = sending.last_progress;
    at->second.proven |= status == UCS_OK || status == UCS_ERR_REJECTED;
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

ucs_status_t UcxCore::ReplyCallback(void* self, const void* header, size_t header_size, void* data,
                                    size_t length, const ucp_am_recv_param_t* parameters) {
  auto* core = static_cast<UcxCore*>(self);
  const std::optional<ReplyHeader> reply = DecodeReply(header, header_size);
  const bool rendezvous = (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  if (rendezvous || !reply || length > kMaxVerdictMessageBytes) {
    observe::LogWarning("", "ucx: a reply that is none of ours (%d and %d bytes)", header_size,
                        length);
    return rendezvous ? UCS_ERR_REJECTED : UCS_OK;
  }
  core->counters_.received_bytes += static_cast<int64_t>(header_size + length);
  core->OnReply(*reply, std::string(static_cast<const char*>(data), length));
  return UCS_OK;
}

void UcxCore::OnReply(const ReplyHeader& header, std::string message) {
  const auto found = sendings_.find(header.id);
  if (header.sender != own_id_ || found == sendings_.end()) return;  // ended meanwhile
  Sending& sending = found->second;
  sending.last_progress = Clock::now();
  NoteProgress(sending.endpoint);
  sending.verdict = VerdictFromWire(header.code, std::move(message));
  if (sending.stage == Stage::kSent) Finish(header.id, *sending.verdict);
}

void UcxCore::CancelSend(DataPlane::SendId id) {
  EndSending(id, absl::CancelledError("cancelled by the sender"));
}

void UcxCore::EndSending(DataPlane::SendId id, absl::Status reason) {
  const auto found = sendings_.find(id);
  if (found == sendings_.end()) return;
  Sending& sending = found->second;
  if (sending.stage != Stage::kInTransport) return Finish(id, std::move(reason));
  if (sending.end_reason) return;
  sending.end_reason = std::move(reason);
  sending.ended_at = Clock::now();
}

void UcxCore::Finish(DataPlane::SendId id, absl::Status status) {
  const auto found = sendings_.find(id);
  const std::function<void(absl::Status)> done = std::move(found->second.done);
  sendings_.erase(found);
  --counters_.sends_in_flight;
  done(std::move(status));
}

// While it waits or UCX has it, progress of others on the endpoint shows that the link lives.
bool UcxCore::Stalled(const Sending& sending, Time now) const {
  const milliseconds limit(options_.stall_timeout_ms);
  if (sending.stage == Stage::kSent) return now - sending.last_progress > limit;
  const milliseconds for_its_size(sending.payload.size() / kSlowestBytesPerMs);
  return now - LastProgress(sending.endpoint, sending.last_progress) > limit + for_its_size;
}

// -------------------------------------------------------------------------------------- receiving

ucs_status_t UcxCore::TransferCallback(void* self, const void* header, size_t header_size,
                                       void* data, size_t length,
                                       const ucp_am_recv_param_t* parameters) {
  auto* core = static_cast<UcxCore*>(self);
  const std::optional<ReceivedTransfer> transfer = DecodeTransfer(header, header_size);
  if (!transfer) {
    observe::LogWarning("", "ucx: refused a message that is none of ours (%d and %d bytes)",
                        header_size, length);
    const bool rendezvous = (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    return rendezvous ? UCS_ERR_REJECTED : UCS_OK;
  }
  return core->OnTransfer(*transfer, data, length, *parameters);
}

// All checks come before a byte of the payload is taken; `length` is what UCX would write.
ucs_status_t UcxCore::OnTransfer(const ReceivedTransfer& transfer, void* data, size_t length,
                                 const ucp_am_recv_param_t& parameters) {
  const bool rendezvous = (parameters.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const ucs_status_t refused = rendezvous ? UCS_ERR_REJECTED : UCS_OK;
  const bool can_reply = (parameters.recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
  const auto from = by_handle_.find(can_reply ? parameters.reply_ep : nullptr);
  if (from == by_handle_.end() || shutting_down_) return refused;
  const Receiving receiving{
      from->second, transfer.prefix.id, transfer.prefix.sender, length, {}, {}};
  const auto refuse = [&](const absl::Status& reason) {
    deferred_.push_back([this, receiving, reason] {
      SendReply(receiving.endpoint, receiving.sender, receiving.id, reason);
    });
    return refused;
  };
  if (transfer.prefix.length != length) {
    return refuse(Invalid("a header that says %d bytes before %d", transfer.prefix.length, length));
  }
  if (rendezvous != (length > 0)) return refuse(Invalid("a payload that came without being asked"));
  counters_.received_bytes += static_cast<int64_t>(sizeof(TransferPrefix) + transfer.header.size());
  const absl::StatusOr<Landing> landing = options_.receiver->OnAnnounce(transfer.header, length);
  if (!landing.ok()) return refuse(landing.status());
  NoteProgress(receiving.endpoint);
  receivings_[landing->token] = receiving;
  ++counters_.landings_in_flight;
  if (landing->region.size() != length) {
    const absl::Status wrong =
        Internal("a region of %d bytes for a transfer of %d", landing->region.size(), length);
    deferred_.push_back([this, token = landing->token, wrong] { Quiet(token, wrong); });
    return refuse(wrong);
  }
  if (length == 0) {
    deferred_.push_back([this, token = landing->token] { OnReceived(token, UCS_OK); });
    return UCS_OK;
  }
  return Accept(receiving, *landing, data);
}

ucs_status_t UcxCore::Accept(const Receiving& receiving, const Landing& landing, void* data) {
  Operation* operation = NewOperation(landing.token);
  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  parameters.cb.recv_am = ReceiveCallback;
  parameters.user_data = operation;
  const ucs_status_ptr_t request = ucp_am_recv_data_nbx(
      worker_->handle(), data, landing.region.data(), receiving.length, &parameters);
  if (!UCS_PTR_IS_PTR(request)) {
    EndOperation(operation);
    deferred_.push_back([this, token = landing.token, status = UCS_PTR_RAW_STATUS(request)] {
      OnReceived(token, status);
    });
  }
  return UCS_INPROGRESS;
}

void UcxCore::ReceiveCallback(void* request, ucs_status_t status, size_t length, void* user_data) {
  auto* operation = static_cast<Operation*>(user_data);
  UcxCore* core = operation->core;
  const uint64_t token = operation->key;
  core->EndOperation(operation);
  ucp_request_free(request);
  core->OnReceived(token, status);
}

void UcxCore::OnReceived(uint64_t token, ucs_status_t status) {
  const Receiving receiving = receivings_.at(token);
  NoteProgress(receiving.endpoint);
  if (status == UCS_OK) counters_.received_bytes += static_cast<int64_t>(receiving.length);
  if (!receiving.end_reason) return Quiet(token, StatusFromUcs(status, "receiving"));
  SendReply(receiving.endpoint, receiving.sender, receiving.id, *receiving.end_reason);
  Quiet(token, *receiving.end_reason);
}

void UcxCore::Quiet(uint64_t token, absl::Status landed) {
  const Receiving receiving = receivings_.at(token);
  receivings_.erase(token);
  --counters_.landings_in_flight;
  TransferReceiver::Reply reply;
  if (landed.ok()) {
    reply = [weak = weak_from_this(), receiving](absl::Status verdict) {
      const std::shared_ptr<UcxCore> core = weak.lock();
      if (core == nullptr) return;
      core->Post([core = core.get(), receiving, verdict = std::move(verdict)] {
        core->SendReply(receiving.endpoint, receiving.sender, receiving.id, verdict);
      });
    };
  }
  options_.receiver->OnQuiet(token, std::move(landed), std::move(reply));
}

void UcxCore::SendReply(uint64_t serial, uint64_t sender, uint64_t id,
                        const absl::Status& verdict) {
  const auto found = endpoints_.find(serial);
  if (found == endpoints_.end() || found->second.broken) return;
  Operation* operation = NewOperation(id);  // keeps header and message until the send is over
  operation->reply.code = static_cast<uint32_t>(verdict.code());
  operation->reply.id = id;
  operation->reply.sender = sender;
  operation->message = VerdictMessage(verdict);
  counters_.sent_bytes += static_cast<int64_t>(sizeof(ReplyHeader) + operation->message.size());
  ucp_request_param_t parameters = Parameters(operation, UCP_AM_SEND_FLAG_EAGER);
  parameters.cb.send = DropOperation;
  const ucs_status_ptr_t request = ucp_am_send_nbx(
      found->second.handle, kReplyMessage, &operation->reply, sizeof(operation->reply),
      operation->message.data(), operation->message.size(), &parameters);
  if (!UCS_PTR_IS_PTR(request)) EndOperation(operation);
}

void UcxCore::CloseLanding(uint64_t token) {
  const auto found = receivings_.find(token);
  if (found == receivings_.end() || found->second.end_reason) return;
  found->second.end_reason = absl::CancelledError("closed by the receiver");
  found->second.ended_at = Clock::now();
}

// ---------------------------------------------------------------------------------------- for logs

std::string UcxCore::DescribeLanes() const {
  for (const auto& [serial, endpoint] : endpoints_) {
    if (endpoint.broken) continue;
    char* text = nullptr;
    size_t size = 0;
    std::FILE* stream = open_memstream(&text, &size);
    ucp_ep_print_info(endpoint.handle, stream);
    std::fclose(stream);
    const std::string info(text, size);
    std::free(text);
    std::string lanes;
    for (size_t at = info.find("lane["); at != std::string::npos; at = info.find("lane[", at + 1)) {
      lanes += "; " + info.substr(at, info.find('\n', at) - at);
    }
    return lanes;
  }
  return "";
}

}  // namespace anchorage::transport
