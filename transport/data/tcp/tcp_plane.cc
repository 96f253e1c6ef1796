#include "transport/data/tcp/tcp_plane.h"

#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "common/mutex.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "observe/logging.h"
#include "transport/data/counters.h"
#include "transport/data/tcp/incoming.h"
#include "transport/data/tcp/outgoing.h"
#include "transport/net/error_code.h"
#include "transport/net/sockets.h"

namespace anchorage::transport {
namespace {

// Connections in their handshake: strangers can hold no more than so many descriptors.
constexpr size_t kMaxHandshakes = 256;
constexpr std::chrono::milliseconds kAcceptPause(100);

const absl::Status& StoppedStatus() {
  static const absl::Status* status =
      new absl::Status(absl::StatusCode::kCancelled, "the data plane was shut down");
  return *status;
}

// Everything that lives on the thread. Replies hold it weakly: they may come later than the plane.
class Core : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(const DataPlaneOptions& options)
      : options_(options), acceptor_(io_), accept_pause_(io_) {}

  absl::Status Listen() {
    ASSIGN_OR_RETURN(acceptor_, transport::Listen(io_, options_.listen));
    error_code error;
    address_ = EndpointText(acceptor_.local_endpoint(error));
    RETURN_IF_ERROR(FromErrorCode(error, "listening on " + options_.listen));
    asio::co_spawn(io_, Accept(), asio::detached);
    return absl::OkStatus();
  }

  void Run() { io_.run(); }

  // Runs `fn` on the thread. False when the plane has been shut down: then never.
  bool Post(std::function<void()> fn) {
    MutexLock lock(mutex_);
    if (shut_down_) return false;
    asio::post(io_, std::move(fn));
    return true;
  }

  // The last thing that is posted. False: was called before.
  bool PostShutdown() {
    MutexLock lock(mutex_);
    if (std::exchange(shut_down_, true)) return false;
    asio::post(io_, [this] { CloseAll(); });
    return true;
  }

  void Send(const std::string& address, OutgoingTransfer transfer) {
    if (closing_) {
      --counters_.sends_in_flight;
      return transfer.done(StoppedStatus());
    }
    std::shared_ptr<Outgoing>& slot = outgoing_[address];
    const bool is_new = slot == nullptr;
    if (is_new) slot = std::make_shared<Outgoing>(io_, address, options_, counters_);
    const std::shared_ptr<Outgoing> outgoing = slot;  // Start() may fail at once and erase the slot
    outgoing->Send(std::move(transfer));
    if (is_new) outgoing->Start([this, address] { outgoing_.erase(address); });
  }

  void CancelSend(DataPlane::SendId id) {
    for (const auto& [address, outgoing] : outgoing_) {
      if (outgoing->Cancel(id, absl::CancelledError("cancelled by the sender"))) return;
    }
  }

  void CloseLanding(uint64_t token) {
    const auto found = scope_.by_token.find(token);
    if (found == scope_.by_token.end()) return;
    const std::shared_ptr<Incoming> incoming = found->second;
    incoming->CloseLanding(token, absl::CancelledError("closed by the receiver"));
  }

  Counters& counters() { return counters_; }
  const std::string& address() const { return address_; }

 private:
  asio::awaitable<void> Accept() {
    while (!closing_) {
      tcp::socket socket(io_);
      const auto [error] = co_await acceptor_.async_accept(socket, kNoThrow);
      if (closing_) break;
      if (error) {  // out of descriptors, or the peer left the queue: neither is for ever
        observe::LogWarning("", "data plane: accepting a connection: %s", error.message());
        accept_pause_.expires_after(kAcceptPause);
        co_await accept_pause_.async_wait(kNoThrow);
      } else if (num_handshakes_ < kMaxHandshakes) {
        Serve(std::make_shared<Incoming>(scope_, std::move(socket)));
      }
    }
  }

  void Serve(const std::shared_ptr<Incoming>& incoming) {
    incoming_.insert(incoming);
    ++num_handshakes_;
    incoming->Start([this] { --num_handshakes_; },
                    [this, weak = std::weak_ptr(incoming)] { incoming_.erase(weak.lock()); });
  }

  TransferReceiver::Reply MakeReply(std::weak_ptr<Incoming> incoming, uint64_t id) {
    return [core = weak_from_this(), incoming, id](absl::Status verdict) {
      const std::shared_ptr<Core> alive = core.lock();
      if (alive == nullptr) return;
      alive->Post([incoming, id, verdict = std::move(verdict)] {
        if (const auto connection = incoming.lock()) connection->SendVerdict(id, verdict);
      });
    };
  }

  void CloseAll() {
    closing_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    accept_pause_.cancel();
    while (!outgoing_.empty()) {
      const std::shared_ptr<Outgoing> outgoing = outgoing_.begin()->second;
      outgoing->Close(StoppedStatus());
    }
    while (!incoming_.empty()) {
      const std::shared_ptr<Incoming> incoming = *incoming_.begin();
      incoming->Close(StoppedStatus());
    }
    work_.reset();  // Run() returns when the last coroutine has ended
  }

  const DataPlaneOptions options_;
  Counters counters_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  tcp::acceptor acceptor_;
  asio::steady_timer accept_pause_;
  std::string address_;

  bool closing_ = false;
  size_t num_handshakes_ = 0;
  std::unordered_map<std::string, std::shared_ptr<Outgoing>> outgoing_;
  std::set<std::shared_ptr<Incoming>> incoming_;
  IncomingScope scope_{io_, options_, counters_, [this](std::weak_ptr<Incoming> from, uint64_t id) {
                         return MakeReply(std::move(from), id);
                       }};

  Mutex mutex_;
  bool shut_down_ GUARDED_BY(mutex_) = false;
};

class TcpPlane final : public DataPlane {
 public:
  explicit TcpPlane(std::shared_ptr<Core> core)
      : core_(std::move(core)), thread_([core = core_.get()] { core->Run(); }) {}
  ~TcpPlane() override { Shutdown(); }

  const char* name() const override { return "tcp"; }
  std::string listen_address() const override { return core_->address(); }

  std::string Describe() const override {
    const DataPlaneStats now = stats();
    return absl::StrFormat("tcp: framed over sockets, %s, %d connections open",
                           core_->address().empty() ? std::string("not listening")
                                                    : "listening on " + core_->address(),
                           now.open_endpoints);
  }

  SendId Send(const std::string& address, std::string header, std::span<const std::byte> payload,
              std::function<void(absl::Status)> done) override {
    if (header.size() > kMaxHeaderBytes || payload.size() > kMaxTransferBytes) {
      const absl::Status too_long =
          Invalid("a transfer with a header of %d and %d bytes", header.size(), payload.size());
      if (!core_->Post([done, too_long] { done(too_long); })) done(too_long);
      return next_id_++;
    }
    auto transfer = std::make_shared<OutgoingTransfer>(
        OutgoingTransfer{0, std::move(header), payload, std::move(done)});
    ++core_->counters().sends_in_flight;
    bool posted = false;
    SendId id = 0;
    {
      // The receiver wants ids that rise in the order of their announcements: between taking one
      // and posting it no other thread may do the same.
      MutexLock lock(send_mutex_);
      id = transfer->id = next_id_++;
      posted = core_->Post(
          [core = core_.get(), address, transfer] { core->Send(address, std::move(*transfer)); });
    }
    if (!posted) {
      --core_->counters().sends_in_flight;
      transfer->done(StoppedStatus());
    }
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
    if (!core_->PostShutdown()) return;
    thread_.join();
  }

 private:
  const std::shared_ptr<Core> core_;
  Mutex send_mutex_;
  std::atomic<SendId> next_id_{1};
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataPlane>> MakeTcpPlane(const DataPlaneOptions& options) {
  auto core = std::make_shared<Core>(options);
  if (!options.listen.empty()) RETURN_IF_ERROR(core->Listen());
  return std::make_unique<TcpPlane>(std::move(core));
}

}  // namespace anchorage::transport
