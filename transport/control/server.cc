#include <chrono>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "observe/logging.h"
#include "transport/control/session.h"
#include "transport/net/error_code.h"
#include "transport/net/sockets.h"

namespace anchorage::transport {
namespace {

// Connections in their handshake: strangers can hold no more than so many descriptors.
constexpr size_t kMaxHandshakes = 256;
constexpr int kAcceptPauseMs = 100;

class Server final : public ControlServer {
 public:
  Server(std::shared_ptr<SessionScope> scope, tcp::acceptor acceptor, std::string address)
      : scope_(std::move(scope)),
        state_(std::make_shared<State>(std::move(acceptor))),
        address_(std::move(address)) {
    scope_->Spawn(Accept(scope_, state_));
  }
  ~Server() override { Close(/*tell=*/false, nullptr); }

  std::string address() const override { return address_; }
  void Stop(std::function<void()> stopped) override { Close(/*tell=*/true, std::move(stopped)); }

 private:
  struct State {
    explicit State(tcp::acceptor acceptor)
        : acceptor(std::move(acceptor)), pause(this->acceptor.get_executor()) {}
    tcp::acceptor acceptor;
    asio::steady_timer pause;
    size_t num_handshakes = 0;
  };

  void Close(bool tell, std::function<void()> stopped) {
    error_code ignored;
    state_->acceptor.close(ignored);
    state_->pause.cancel();
    scope_->Stop(tell, std::move(stopped));
  }

  static asio::awaitable<void> Accept(std::shared_ptr<SessionScope> scope,
                                      std::shared_ptr<State> state) {
    while (state->acceptor.is_open()) {
      tcp::socket socket(scope->io);
      tcp::endpoint peer;
      const auto [error] = co_await state->acceptor.async_accept(socket, peer, kNoThrow);
      if (!state->acceptor.is_open()) break;
      if (error) {  // out of descriptors, or the peer left the queue: neither is for ever
        observe::LogWarning("", "control: accepting a connection: %s", error.message());
        state->pause.expires_after(std::chrono::milliseconds(kAcceptPauseMs));
        co_await state->pause.async_wait(kNoThrow);
        continue;
      }
      if (state->num_handshakes >= kMaxHandshakes) continue;  // closes the socket
      scope->Spawn(Serve(scope, state, std::move(socket), EndpointText(peer)));
    }
  }

  static asio::awaitable<void> Serve(std::shared_ptr<SessionScope> scope,
                                     std::shared_ptr<State> state, tcp::socket socket,
                                     std::string peer) {
    const auto session = std::make_shared<Session>(scope, std::move(socket), SessionRole::kListener,
                                                   std::move(peer));
    ++state->num_handshakes;
    const absl::Status handshake = co_await session->Handshake();
    --state->num_handshakes;
    if (!handshake.ok()) {
      if (scope->handler == nullptr) co_return;  // stopped
      observe::LogWarning("", "control: refused a peer: %s", std::string(handshake.message()));
      co_return;
    }
    co_await session->Serve();
  }

  const std::shared_ptr<SessionScope> scope_;
  const std::shared_ptr<State> state_;
  const std::string address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ControlServer>> ListenControl(asio::io_context& io,
                                                             const std::string& address,
                                                             uint64_t own_boot, proto::Hello own,
                                                             const ControlOptions& options,
                                                             ControlHandler& handler) {
  ASSIGN_OR_RETURN(tcp::acceptor acceptor, Listen(io, address));
  error_code error;
  const tcp::endpoint endpoint = acceptor.local_endpoint(error);
  RETURN_IF_ERROR(FromErrorCode(error, "listening on " + address));
  auto scope = std::make_shared<SessionScope>(io, own_boot, std::move(own), options, handler);
  return std::make_unique<Server>(std::move(scope), std::move(acceptor), EndpointText(endpoint));
}

}  // namespace anchorage::transport
