#include "transport/data/ucx/ucx_plane.h"

#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "observe/host_port.h"
#include "transport/data/ucx/core.h"

namespace anchorage::transport {
namespace {

class UcxPlane final : public DataPlane {
 public:
  explicit UcxPlane(std::shared_ptr<UcxCore> core)
      : core_(std::move(core)), thread_([core = core_.get()] { core->Run(); }) {}
  ~UcxPlane() override { Shutdown(); }

  const char* name() const override { return "ucx"; }
  std::string listen_address() const override { return core_->listen_address(); }

  std::string Describe() const override {
    auto lanes = std::make_shared<std::promise<std::string>>();
    if (!core_->Post([core = core_.get(), lanes] { lanes->set_value(core->DescribeLanes()); })) {
      return core_->description();
    }
    return core_->description() + lanes->get_future().get();
  }

  SendId Send(const std::string& address, std::string header, std::span<const std::byte> payload,
              std::function<void(absl::Status)> done) override {
    const SendId id = next_id_++;
    ++core_->counters().sends_in_flight;
    absl::StatusOr<SocketAddress> to = Check(address, header, payload);
    if (!to.ok()) {
      Post([this, done, status = to.status()] { End(done, status); }, done);
      return id;
    }
    auto transfer = std::make_shared<UcxCore::Outgoing>(
        UcxCore::Outgoing{*to, std::move(header), payload, done});
    Post([core = core_.get(), id, transfer] { core->Send(id, std::move(*transfer)); }, done);
    return id;
  }

  void CancelSend(SendId id) override {
    core_->Post([core = core_.get(), id] { core->CancelSend(id); });
  }

  void CloseLanding(uint64_t token) override {
    core_->Post([core = core_.get(), token] { core->CloseLanding(token); });
  }

  DataPlaneStats stats() const override { return core_->counters().Read(); }

  void Shutdown() override {
    if (core_->PostShutdown()) thread_.join();
  }

 private:
  static absl::StatusOr<SocketAddress> Check(const std::string& address, const std::string& header,
                                             std::span<const std::byte> payload) {
    if (header.size() > kMaxHeaderBytes || payload.size() > kMaxTransferBytes) {
      return Invalid("a transfer with a header of %d and %d bytes", header.size(), payload.size());
    }
    ASSIGN_OR_RETURN(const observe::HostPort where, observe::ParseHostPort(address));
    if (where.port == 0) return Invalid("'%s' is no address to send to: its port is 0", address);
    return ResolveSocketAddress(address);
  }

  void End(const std::function<void(absl::Status)>& done, const absl::Status& status) {
    --core_->counters().sends_in_flight;
    done(status);
  }

  // Ends the send at once when the plane has been shut down.
  void Post(std::function<void()> command, const std::function<void(absl::Status)>& done) {
    if (core_->Post(std::move(command))) return;
    End(done, absl::CancelledError("the data plane was shut down"));
  }

  const std::shared_ptr<UcxCore> core_;
  std::atomic<SendId> next_id_{1};
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataPlane>> MakeUcxPlane(const DataPlaneOptions& options) {
  std::string interface_host = options.interface_host;
  if (interface_host.empty() && !options.listen.empty()) {
    ASSIGN_OR_RETURN(const observe::HostPort where, observe::ParseHostPort(options.listen));
    interface_host = where.host;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, UcxWorker::Create(interface_host));
  auto core = std::make_shared<UcxCore>(options, std::move(worker));
  if (!options.listen.empty()) RETURN_IF_ERROR(core->Listen());
  return std::make_unique<UcxPlane>(std::move(core));
}

}  // namespace anchorage::transport
