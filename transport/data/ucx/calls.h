// Private to transport/data/: the three calls into UCX that end later, as functions with a `done`.
//
// UCX takes a C callback and a pointer for each and may call back from any progress call, long
// after whoever made the call has lost interest. So each call is an object of its own, which the
// callback frees; what must stay alive with it is captured by `done`. When running() is 0, UCX
// holds nothing of ours.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

namespace anchorage::transport {

// On the worker's thread. Must outlive the calls that it began.
class UcxCalls {
 public:
  // Runs inside a progress call.
  using Done = std::function<void(ucs_status_t)>;

  struct Message {
    unsigned id = 0;  // of the active message
    std::string_view header;
    std::span<const std::byte> payload;  // both stay until `done`
    bool rendezvous = false;             // else the payload goes along, and must be small
    bool answerable = false;             // the receiver gets an endpoint to answer over
  };

  // Each returns UCS_INPROGRESS when `done` will run, else how the call ended at once: then `done`
  // never runs.
  ucs_status_t Send(ucp_ep_h endpoint, const Message& message, Done done);
  // Lets the payload of an announced rendezvous, `data`, land: exactly region.size() bytes.
  ucs_status_t Receive(ucp_worker_h worker, void* data, std::span<std::byte> region, Done done);
  // Ends an endpoint with all that is on it.
  ucs_status_t CloseByForce(ucp_ep_h endpoint, Done done);

  size_t running() const { return running_; }

 private:
  struct Call {
    UcxCalls* calls = nullptr;
    Done done;
  };

  Call* New(Done done);
  ucs_status_t Settle(Call* call, ucs_status_ptr_t request);
  static void End(void* request, ucs_status_t status, void* call);
  static void EndReceive(void* request, ucs_status_t status, size_t length, void* call);

  size_t running_ = 0;
};

}  // namespace anchorage::transport
