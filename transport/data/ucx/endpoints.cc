#include "transport/data/ucx/endpoints.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/status_macros.h"
#include "observe/logging.h"
#include "transport/data/ucx/ucs_status.h"

namespace anchorage::transport {
namespace {

using std::chrono::steady_clock;

// Senders that connect to us: strangers can hold no more than so many descriptors.
constexpr size_t kMaxEndpoints = 4096;

}  // namespace

UcxEndpoints::UcxEndpoints(UcxWorker& worker, UcxCalls& calls, Counters& counters,
                           OnClosed on_closed)
    : worker_(worker), calls_(calls), counters_(counters), on_closed_(std::move(on_closed)) {}

// --------------------------------------------------------------------------------------- listening

absl::StatusOr<std::string> UcxEndpoints::Listen(const std::string& address) {
  ASSIGN_OR_RETURN(const SocketAddress own, ResolveSocketAddress(address));
  const std::string what = "listening on " + address;
  ucp_listener_params_t parameters{};
  parameters.field_mask =
      UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  parameters.sockaddr = own.ucs();
  parameters.conn_handler = {OnConnection, this};
  RETURN_IF_ERROR(
      StatusFromUcs(ucp_listener_create(worker_.handle(), &parameters, &listener_), what));
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  RETURN_IF_ERROR(StatusFromUcs(ucp_listener_query(listener_, &attributes), what));
  return SocketAddress{attributes.sockaddr, own.size}.ToString();
}

void UcxEndpoints::StopListening() {
  if (listener_ != nullptr) ucp_listener_destroy(std::exchange(listener_, nullptr));
}

void UcxEndpoints::OnConnection(ucp_conn_request_h request, void* self) {
  auto* endpoints = static_cast<UcxEndpoints*>(self);
  if (endpoints->size() >= kMaxEndpoints) {
    ucp_listener_reject(endpoints->listener_, request);
    return;
  }
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  parameters.conn_request = request;
  const absl::StatusOr<ucp_ep_h> handle = endpoints->Create(parameters);
  if (!handle.ok()) {
    observe::LogWarning("", "ucx: accepting a connection: %s",
                        std::string(handle.status().message()));
    return;
  }
  endpoints->Add(*handle, "");
}

// -------------------------------------------------------------------------------- making endpoints

absl::StatusOr<UcxEndpoints::Serial> UcxEndpoints::Connect(const SocketAddress& address) {
  const std::string text = address.ToString();
  if (const auto found = by_address_.find(text); found != by_address_.end()) return found->second;
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
  parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  parameters.sockaddr = address.ucs();
  const absl::StatusOr<ucp_ep_h> handle = Create(parameters);
  if (!handle.ok()) return Annotate(handle.status(), "connecting to " + text);
  const Serial serial = Add(*handle, text);
  by_address_[text] = serial;
  return serial;
}

// Errors are Unavailable: a later try may succeed.
absl::StatusOr<ucp_ep_h> UcxEndpoints::Create(ucp_ep_params_t parameters) {
  parameters.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {OnError, this};
  ucp_ep_h handle = nullptr;
  const ucs_status_t status = ucp_ep_create(worker_.handle(), &parameters, &handle);
  if (status != UCS_OK) return Unavailable("%s", ucs_status_string(status));
  return handle;
}

UcxEndpoints::Serial UcxEndpoints::Add(ucp_ep_h handle, std::string address) {
  const Serial serial = next_++;
  by_handle_[handle] = serial;
  endpoints_[serial] = {.handle = handle,
                        .address = std::move(address),
                        .broken = false,
                        .reason = {},
                        .last_progress = steady_clock::now()};
  ++counters_.open_endpoints;
  return serial;
}

// -------------------------------------------------------------------------------- ending endpoints

void UcxEndpoints::OnError(void* self, ucp_ep_h handle, ucs_status_t status) {
  auto* endpoints = static_cast<UcxEndpoints*>(self);
  endpoints->Break(endpoints->Find(handle),
                   Unavailable("the connection broke: %s", ucs_status_string(status)));
}

void UcxEndpoints::Retire(Serial endpoint) {
  const auto found = endpoints_.find(endpoint);
  if (found == endpoints_.end()) return;
  const auto named = by_address_.find(found->second.address);
  if (named != by_address_.end() && named->second == endpoint) by_address_.erase(named);
}

void UcxEndpoints::Break(Serial serial, const absl::Status& reason) {
  const auto found = endpoints_.find(serial);
  if (found == endpoints_.end() || found->second.broken) return;
  Retire(serial);
  found->second.broken = true;
  found->second.reason =
      found->second.address.empty() ? reason : Annotate(reason, found->second.address);
}

void UcxEndpoints::BreakAll(const absl::Status& reason) {
  for (const auto& [serial, endpoint] : endpoints_) Break(serial, reason);
}

bool UcxEndpoints::CloseBroken() {
  std::vector<std::pair<Serial, Endpoint>> broken;
  for (const auto& [serial, endpoint] : endpoints_) {
    if (endpoint.broken) broken.emplace_back(serial, endpoint);
  }
  for (const auto& [serial, endpoint] : broken) {
    calls_.CloseByForce(endpoint.handle, nullptr);
    endpoints_.erase(serial);
    by_handle_.erase(endpoint.handle);
    --counters_.open_endpoints;
    on_closed_(serial, endpoint.reason);
  }
  return !broken.empty();
}

// --------------------------------------------------------------------------------------- questions

ucp_ep_h UcxEndpoints::handle(Serial endpoint) const {
  const auto found = endpoints_.find(endpoint);
  return found == endpoints_.end() || found->second.broken ? nullptr : found->second.handle;
}

UcxEndpoints::Serial UcxEndpoints::Find(ucp_ep_h handle) const {
  const auto found = by_handle_.find(handle);
  return found == by_handle_.end() ? 0 : found->second;
}

void UcxEndpoints::NoteProgress(Serial endpoint) {
  const auto found = endpoints_.find(endpoint);
  if (found != endpoints_.end()) found->second.last_progress = steady_clock::now();
}

UcxEndpoints::Time UcxEndpoints::LastProgress(Serial endpoint, Time since) const {
  const auto found = endpoints_.find(endpoint);
  return found == endpoints_.end() ? since : std::max(since, found->second.last_progress);
}

std::string UcxEndpoints::DescribeLanes() const {
  const auto usable = std::find_if(endpoints_.begin(), endpoints_.end(),
                                   [](const auto& entry) { return !entry.second.broken; });
  if (usable == endpoints_.end()) return "";
  char* text = nullptr;
  size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);
  ucp_ep_print_info(usable->second.handle, stream);
  std::fclose(stream);
  const std::string info(text, size);
  std::free(text);
  std::string lanes;
  for (size_t at = info.find("lane["); at != std::string::npos; at = info.find("lane[", at + 1)) {
    lanes += "; " + info.substr(at, info.find('\n', at) - at);
  }
  return lanes;
}

}  // namespace anchorage::transport
