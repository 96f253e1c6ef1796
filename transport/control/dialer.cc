#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "common/ids.h"
#include "common/status_macros.h"
#include "observe/logging.h"
#include "transport/control/session.h"
#include "transport/net/sockets.h"

namespace anchorage::transport {
namespace {

class Dialer final : public ControlDialer {
 public:
  Dialer(std::shared_ptr<SessionScope> scope, const std::string& address)
      : scope_(std::move(scope)), state_(std::make_shared<State>(scope_->io, address)) {
    scope_->Spawn(Redial(scope_, state_));
  }
  ~Dialer() override { Close(/*tell=*/false, nullptr); }

  void Stop(std::function<void()> stopped) override { Close(/*tell=*/true, std::move(stopped)); }

 private:
  struct State {
    State(asio::io_context& io, const std::string& address) : address(address), pause(io) {}
    const std::string address;
    bool stopped = false;
    asio::steady_timer pause;
    std::shared_ptr<Connector> connector;  // while connecting
    std::minstd_rand random{static_cast<uint32_t>(RandomU64())};
  };

  void Close(bool tell, std::function<void()> stopped) {
    state_->stopped = true;
    state_->pause.cancel();
    if (state_->connector) state_->connector->Cancel();
    scope_->Stop(tell, std::move(stopped));
  }

  // One connection from dialing to its end. `was_up` tells whether it got through the handshake.
  static asio::awaitable<absl::Status> DialOnce(std::shared_ptr<SessionScope> scope,
                                                std::shared_ptr<State> state, bool& was_up) {
    const auto connector = std::make_shared<Connector>(scope->io);
    state->connector = connector;
    absl::StatusOr<tcp::socket> socket =
        co_await connector->Run(state->address, scope->options.connect_timeout_ms);
    state->connector.reset();
    if (!socket.ok()) co_return socket.status();
    const auto session =
        std::make_shared<Session>(scope, *std::move(socket), SessionRole::kDialer, state->address);
    CO_RETURN_IF_ERROR(co_await session->Handshake());
    was_up = true;
    co_return co_await session->Serve();
  }

  static asio::awaitable<void> Redial(std::shared_ptr<SessionScope> scope,
                                      std::shared_ptr<State> state) {
    const int64_t min_pause_ms =
        std::min(scope->options.redial_min_ms, scope->options.redial_max_ms);
    int64_t pause_ms = min_pause_ms;
    std::string last_reason;
    while (!state->stopped) {
      bool was_up = false;
      const absl::Status ended = co_await DialOnce(scope, state, was_up);
      if (state->stopped) break;
      if (was_up) pause_ms = min_pause_ms;
      if (std::string reason(ended.message()); was_up || reason != last_reason) {
        observe::LogWarning("", "control: channel to %s: %s", state->address, reason);
        last_reason = std::move(reason);
      }
      // Up to a quarter longer at random, so that many dialers do not come in step.
      std::uniform_int_distribution<int64_t> jitter(0, pause_ms / 4);
      state->pause.expires_after(std::chrono::milliseconds(pause_ms + jitter(state->random)));
      co_await state->pause.async_wait(kNoThrow);
      pause_ms = std::min(2 * pause_ms, scope->options.redial_max_ms);
    }
  }

  const std::shared_ptr<SessionScope> scope_;
  const std::shared_ptr<State> state_;
};

}  // namespace

std::unique_ptr<ControlDialer> DialControl(asio::io_context& io, const std::string& address,
                                           uint64_t own_boot, proto::Hello own,
                                           const ControlOptions& options, ControlHandler& handler) {
  return std::make_unique<Dialer>(
      std::make_shared<SessionScope>(io, own_boot, std::move(own), options, handler), address);
}

}  // namespace anchorage::transport
