// The thread that owns the UCX worker. It goes round: carry out what other threads have asked for,
// hand waiting sends to UCX, let UCX work for at most a millisecond, look at the deadlines, close
// what is broken. It sleeps only after a round in which UCX had nothing to do, on a descriptor that
// the network and the other threads can wake.
//
//   commands.h    what others ask for            endpoints.h   connections
//   sends.h       transfers that leave           landings.h    transfers that arrive
//   calls.h       what UCX has not finished      worker.h      UCX's own handles and settings
#include "transport/data/ucx/ucx_backend.h"

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "observe/host_port.h"
#include "observe/logging.h"
#include "transport/data/ucx/calls.h"
#include "transport/data/ucx/commands.h"
#include "transport/data/ucx/endpoints.h"
#include "transport/data/ucx/landings.h"
#include "transport/data/ucx/sends.h"
#include "transport/data/ucx/worker.h"

namespace anchorage::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kMaxProgressCalls = 16;
constexpr milliseconds kMaxProgressTime(1);
constexpr milliseconds kMaxSleep(50);
constexpr milliseconds kWatchPeriod(10);
constexpr std::chrono::seconds kShutdownLimit(10);

class UcxBackend final : public DataBackend {
 public:
  UcxBackend(const DataPlaneOptions& options, std::unique_ptr<UcxWorker> worker)
      : worker_(std::move(worker)),
        commands_(std::make_shared<UcxCommands>(worker_->handle())),
        endpoints_(*worker_, calls_, counters_,
                   [this](UcxEndpoints::Serial endpoint, const absl::Status& reason) {
                     sends_.OnEndpointClosed(endpoint, reason);
                     if (landings_) landings_->OnEndpointClosed(endpoint, reason);
                   }),
        sends_(*worker_, endpoints_, calls_, counters_, options.stall_timeout_ms) {
    if (options.receiver == nullptr) return;
    landings_.emplace(*worker_, endpoints_, calls_, counters_, *options.receiver, commands_);
  }

  absl::Status Listen(const std::string& address) {
    ASSIGN_OR_RETURN(listen_address_, endpoints_.Listen(address));
    return absl::OkStatus();
  }

  const char* name() const override { return "ucx"; }
  const std::string& listen_address() const override { return listen_address_; }
  Counters& counters() override { return counters_; }

  bool Post(std::function<void()> command) override { return commands_->Post(std::move(command)); }
  bool PostShutdown() override {
    return commands_->Close([this] { shutting_down_ = true; });
  }

  void Send(const std::string& address, OutgoingTransfer transfer) override {
    sends_.Send(address, std::move(transfer));
  }
  void CancelSend(DataPlane::SendId id) override { sends_.Cancel(id); }
  void CloseLanding(uint64_t token) override {
    if (landings_) landings_->Close(token);
  }
  std::string Describe() const override {
    return worker_->description() + endpoints_.DescribeLanes();
  }

  void Run() override {
    while (!shutting_down_) {
      commands_->Run();
      sends_.StartWaiting();
      const unsigned progressed = Progress();
      Watch();
      const bool closed = endpoints_.CloseBroken();
      if (progressed == 0 && !closed && !shutting_down_) Sleep();
    }
    ShutDown();
  }

 private:
  unsigned Progress() {
    const auto end = steady_clock::now() + kMaxProgressTime;
    unsigned total = 0;
    for (int call = 0; call < kMaxProgressCalls; ++call) {
      const unsigned events = ucp_worker_progress(worker_->handle());
      total += events;
      if (events == 0 || steady_clock::now() > end) break;
    }
    return total + (landings_ ? landings_->RunDeferred() : 0);
  }

  void Watch() {
    const auto now = steady_clock::now();
    if (now < next_watch_) return;
    next_watch_ = now + kWatchPeriod;
    sends_.Watch(now);
    if (landings_) landings_->Watch(now);
  }

  // Armed only after a progress call that found nothing. A command that is posted from now on
  // signals the worker, which ends the poll.
  void Sleep() {
    const ucs_status_t armed = ucp_worker_arm(worker_->handle());
    if (armed == UCS_ERR_BUSY || !commands_->empty()) return;
    const bool watching = !sends_.empty() || (landings_ && !landings_->empty());
    pollfd descriptor{worker_->event_fd(), POLLIN, 0};
    poll(&descriptor, 1, static_cast<int>((watching ? kWatchPeriod : kMaxSleep).count()));
  }

  // The worker is driven until UCX has let go of all memory; only then may its owners have it back.
  void ShutDown() {
    endpoints_.StopListening();
    sends_.Stop(PlaneStopped());
    if (landings_) landings_->Stop(PlaneStopped());
    endpoints_.BreakAll(PlaneStopped());
    const auto limit = steady_clock::now() + kShutdownLimit;
    while ((calls_.running() > 0 || endpoints_.size() > 0) && steady_clock::now() < limit) {
      const bool closed = endpoints_.CloseBroken();
      if (Progress() == 0 && !closed) Sleep();
    }
    if (calls_.running() > 0) {
      observe::LogError("", "ucx: %d calls have not ended after %d s", calls_.running(),
                        kShutdownLimit.count());
    }
    sends_.FinishAll(PlaneStopped());
    if (landings_) landings_->QuietAll(PlaneStopped());
  }

  Counters counters_;
  const std::unique_ptr<UcxWorker> worker_;
  const std::shared_ptr<UcxCommands> commands_;
  UcxCalls calls_;
  UcxEndpoints endpoints_;
  UcxSends sends_;
  std::optional<UcxLandings> landings_;  // where there is a receiver
  std::string listen_address_;
  bool shutting_down_ = false;
  steady_clock::time_point next_watch_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<DataBackend>> MakeUcxBackend(const DataPlaneOptions& options) {
  std::string interface_host = options.interface_host;
  if (interface_host.empty() && !options.listen.empty()) {
    ASSIGN_OR_RETURN(const observe::HostPort where, observe::ParseHostPort(options.listen));
    interface_host = where.host;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, UcxWorker::Create(interface_host));
  auto backend = std::make_shared<UcxBackend>(options, std::move(worker));
  if (!options.listen.empty()) RETURN_IF_ERROR(backend->Listen(options.listen));
  return backend;
}

}  // namespace anchorage::transport
