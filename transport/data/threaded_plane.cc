#include "transport/data/threaded_plane.h"

#include <netdb.h>

#include <future>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "observe/host_port.h"

namespace anchorage::transport {
namespace {

bool IsNumeric(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;  // looks nothing up
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

absl::Status CheckTransfer(const std::string& address, const OutgoingTransfer& transfer) {
  if (transfer.header.size() > kMaxHeaderBytes || transfer.payload.size() > kMaxTransferBytes) {
    return Invalid("a transfer with a header of %d and %d bytes", transfer.header.size(),
                   transfer.payload.size());
  }
  ASSIGN_OR_RETURN(const observe::HostPort to, observe::ParseHostPort(address));
  if (to.port == 0) return Invalid("'%s' is no address to send to: its port is 0", address);
  if (!IsNumeric(to.host)) return Invalid("'%s' is no address to send to: not a number", address);
  return absl::OkStatus();
}

}  // namespace

ThreadedPlane::ThreadedPlane(std::shared_ptr<DataBackend> backend)
    : backend_(std::move(backend)), thread_([backend = backend_.get()] { backend->Run(); }) {}

std::string ThreadedPlane::Describe() const {
  auto words = std::make_shared<std::promise<std::string>>();
  const bool posted =
      backend_->Post([backend = backend_.get(), words] { words->set_value(backend->Describe()); });
  return posted ? words->get_future().get() : std::string(backend_->name()) + ", shut down";
}

DataPlane::SendId ThreadedPlane::Send(const std::string& address, std::string header,
                                      std::span<const std::byte> payload,
                                      std::function<void(absl::Status)> done) {
  Counters& counters = backend_->counters();
  ++counters.sends_in_flight;
  auto transfer = std::make_shared<OutgoingTransfer>();
  transfer->header = std::move(header);
  transfer->payload = payload;
  transfer->done = [&counters, done = std::move(done)](absl::Status status) {
    --counters.sends_in_flight;
    done(std::move(status));
  };
  const absl::Status checked = CheckTransfer(address, *transfer);
  bool posted = false;
  SendId id = 0;
  {
    // Ids rise in the order in which the backend hears of them: between taking one and posting it
    // no other thread may do the same.
    MutexLock lock(mutex_);
    id = transfer->id = next_id_++;
    posted = backend_->Post([backend = backend_.get(), address, transfer, checked] {
      if (!checked.ok()) return transfer->done(checked);
      backend->Send(address, std::move(*transfer));
    });
  }
  if (!posted) transfer->done(PlaneStopped());
  return id;
}

void ThreadedPlane::CancelSend(SendId id) {
  backend_->Post([backend = backend_.get(), id] { backend->CancelSend(id); });
}

void ThreadedPlane::CloseLanding(uint64_t token) {
  backend_->Post([backend = backend_.get(), token] { backend->CloseLanding(token); });
}

void ThreadedPlane::Shutdown() {
  if (backend_->PostShutdown()) thread_.join();
}

}  // namespace anchorage::transport
