#include "transport/data/tcp/tcp_backend.h"

#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "common/mutex.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "observe/logging.h"
#include "transport/data/tcp/incoming.h"
#include "transport/data/tcp/outgoing.h"
#include "transport/net/error_code.h"
#include "transport/net/sockets.h"

namespace anchorage::transport {
namespace {

// Connections in their handshake: strangers can hold no more than so many descriptors.
constexpr size_t kMaxHandshakes = 256;
constexpr std::chrono::milliseconds kAcceptPause(100);

// Replies hold it weakly: they may come later than the plane.
class TcpBackend final : public DataBackend, public std::enable_shared_from_this<TcpBackend> {
 public:
  explicit TcpBackend(const DataPlaneOptions& options)
      : options_(options), acceptor_(io_), accept_pause_(io_) {}

  absl::Status Listen() {
    ASSIGN_OR_RETURN(acceptor_, transport::Listen(io_, options_.listen));
    error_code error;
    address_ = EndpointText(acceptor_.local_endpoint(error));
    RETURN_IF_ERROR(FromErrorCode(error, "listening on " + options_.listen));
    asio::co_spawn(io_, Accept(), asio::detached);
    return absl::OkStatus();
  }

  const char* name() const override { return "tcp"; }
  const std::string& listen_address() const override { return address_; }
  Counters& counters() override { return counters_; }

  void Run() override { io_.run(); }

  bool Post(std::function<void()> command) override {
    MutexLock lock(mutex_);
    if (shut_down_) return false;
    Push(std::move(command));
    return true;
  }

  bool PostShutdown() override {
    MutexLock lock(mutex_);
    if (std::exchange(shut_down_, true)) return false;
    Push([this] { CloseAll(); });
    return true;
  }

  void Send(const std::string& address, OutgoingTransfer transfer) override {
    std::shared_ptr<Outgoing>& slot = outgoing_[address];
    const bool is_new = slot == nullptr;
    if (is_new) slot = std::make_shared<Outgoing>(io_, address, options_, counters_);
    const std::shared_ptr<Outgoing> outgoing = slot;  // Start() may fail at once and erase the slot
    outgoing->Send(std::move(transfer));
    if (is_new) outgoing->Start([this, address] { outgoing_.erase(address); });
  }

  void CancelSend(DataPlane::SendId id) override {
    for (const auto& [address, outgoing] : outgoing_) {
      if (outgoing->Cancel(id, absl::CancelledError("cancelled by the sender"))) return;
    }
  }

  void CloseLanding(uint64_t token) override {
    const auto found = scope_.by_token.find(token);
    if (found == scope_.by_token.end()) return;
    const std::shared_ptr<Incoming> incoming = found->second;
    incoming->CloseLanding(token, absl::CancelledError("closed by the receiver"));
  }

  std::string Describe() const override {
    return absl::StrFormat("tcp: framed over sockets, %s, %d connections open",
                           address_.empty() ? "not listening" : "listening on " + address_,
                           counters_.open_endpoints.load());
  }

 private:
  // In a queue of its own, since Asio keeps no order between what its own thread posts and what
  // others post later.
  void Push(std::function<void()> command) REQUIRES(mutex_) {
    commands_.push_back(std::move(command));
    asio::post(io_, [this] { RunOldest(); });
  }

  void RunOldest() {
    std::function<void()> command;
    {
      MutexLock lock(mutex_);
      command = std::move(commands_.front());
      commands_.pop_front();
    }
    command();
  }

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
    return [backend = weak_from_this(), incoming, id](absl::Status verdict) {
      const std::shared_ptr<TcpBackend> alive = backend.lock();
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
      outgoing->Close(PlaneStopped());
    }
    while (!incoming_.empty()) {
      const std::shared_ptr<Incoming> incoming = *incoming_.begin();
      incoming->Close(PlaneStopped());
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
  std::deque<std::function<void()>> commands_ GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::shared_ptr<DataBackend>> MakeTcpBackend(const DataPlaneOptions& options) {
  auto backend = std::make_shared<TcpBackend>(options);
  if (!options.listen.empty()) RETURN_IF_ERROR(backend->Listen());
  return backend;
}

}  // namespace anchorage::transport
