// Private to transport/data/: what arrives at a plane over UCX.
//
// The receiver judges a transfer inside UCX's callback, before a byte of the payload is taken: size
// of the header, length and protocol here, everything else by TransferReceiver. UCX aborts the
// process when it is asked for fewer bytes than it was sent, so a region of any other length is
// refused. A refusal is a status returned to UCX and a message with the reason.
//
// A landing that is to end cannot be taken back either (see sends.h). The sender is told, and ends
// it on its side. If it does not, the connection is closed by force, but only when nothing that is
// wanted lands over it any more.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "transport/data/backend.h"
#include "transport/data/ucx/calls.h"
#include "transport/data/ucx/commands.h"
#include "transport/data/ucx/endpoints.h"
#include "transport/data/ucx/message.h"
#include "transport/data/ucx/worker.h"

namespace anchorage::transport {

// On the worker's thread.
class UcxLandings {
 public:
  using Time = UcxEndpoints::Time;

  // Takes the transfers that come to `worker`. All references must outlive it. Verdicts come in as
  // `commands`.
  UcxLandings(UcxWorker& worker, UcxEndpoints& endpoints, UcxCalls& calls, Counters& counters,
              TransferReceiver& receiver, std::shared_ptr<UcxCommands> commands);

  void Close(uint64_t token);

  // Does what had to wait until UCX's callback had returned; says how much it was.
  unsigned RunDeferred();
  // Closes what was to end and did not.
  void Watch(Time now);
  void OnEndpointClosed(UcxEndpoints::Serial endpoint, const absl::Status& reason);

  // Shutdown: nothing is accepted any more and everything ends with `reason`, soon or, when UCX has
  // let go of all memory, now.
  void Stop(const absl::Status& reason);
  void QuietAll(const absl::Status& reason);

  bool empty() const { return receivings_.empty(); }

 private:
  // Whom to answer.
  struct Source {
    UcxEndpoints::Serial endpoint = 0;
    uint64_t sender = 0;
    uint64_t id = 0;
  };
  struct Receiving {
    Source source;
    size_t length = 0;
    std::optional<absl::Status> end_reason;
    std::optional<Time> ended_at;  // since when it is to end
  };

  static ucs_status_t OnMessage(void* self, const void* header, size_t header_size, void* data,
                                size_t length, const ucp_am_recv_param_t* parameters);
  ucs_status_t OnTransfer(const ReceivedTransfer& transfer, void* data, size_t length,
                          const ucp_am_recv_param_t& parameters);
  ucs_status_t Accept(const Landing& landing, void* data);
  void OnReceived(uint64_t token, ucs_status_t status);
  void Quiet(uint64_t token, absl::Status landed);
  void SendVerdict(const Source& source, const absl::Status& verdict);

  UcxWorker& worker_;
  UcxEndpoints& endpoints_;
  UcxCalls& calls_;
  Counters& counters_;
  TransferReceiver& receiver_;
  const std::shared_ptr<UcxCommands> commands_;
  bool stopped_ = false;
  std::map<uint64_t, Receiving> receivings_;  // by token
  std::vector<std::function<void()>> deferred_;
};

}  // namespace anchorage::transport
