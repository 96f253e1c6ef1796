#include "transport/data/ucx/calls.h"

#include <memory>
#include <utility>

namespace anchorage::transport {
namespace {

ucp_request_param_t Parameters(void* call, uint32_t flags) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.user_data = call;
  parameters.flags = flags;
  return parameters;
}

}  // namespace

UcxCalls::Call* UcxCalls::New(Done done) {
  ++running_;
  return new Call{this, std::move(done)};
}

void UcxCalls::End(void* request, ucs_status_t status, void* user_data) {
  const std::unique_ptr<Call> call(static_cast<Call*>(user_data));
  --call->calls->running_;
  ucp_request_free(request);
  if (call->done) call->done(status);
}

void UcxCalls::EndReceive(void* request, ucs_status_t status, size_t length, void* user_data) {
  End(request, status, user_data);
}

ucs_status_t UcxCalls::Settle(Call* call, ucs_status_ptr_t request) {
  if (UCS_PTR_IS_PTR(request)) return UCS_INPROGRESS;
  --running_;
  delete call;
  return UCS_PTR_RAW_STATUS(request);
}

ucs_status_t UcxCalls::Send(ucp_ep_h endpoint, const Message& message, Done done) {
  Call* call = New(std::move(done));
  const uint32_t protocol = message.rendezvous ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  const uint32_t reply = message.answerable ? UCP_AM_SEND_FLAG_REPLY : 0;
  ucp_request_param_t parameters = Parameters(call, protocol | reply);
  parameters.cb.send = End;
  return Settle(call,
                ucp_am_send_nbx(endpoint, message.id, message.header.data(), message.header.size(),
                                message.payload.data(), message.payload.size(), &parameters));
}

ucs_status_t UcxCalls::Receive(ucp_worker_h worker, void* data, std::span<std::byte> region,
                               Done done) {
  Call* call = New(std::move(done));
  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  parameters.user_data = call;
  parameters.cb.recv_am = EndReceive;
  return Settle(call,
                ucp_am_recv_data_nbx(worker, data, region.data(), region.size(), &parameters));
}

ucs_status_t UcxCalls::CloseByForce(ucp_ep_h endpoint, Done done) {
  Call* call = New(std::move(done));
  ucp_request_param_t parameters = Parameters(call, UCP_EP_CLOSE_FLAG_FORCE);
  parameters.cb.send = End;
  return Settle(call, ucp_ep_close_nbx(endpoint, &parameters));
}

}  // namespace anchorage::transport
