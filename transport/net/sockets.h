// Private to transport/: opening sockets of both kinds, and naming endpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "transport/net/asio.h"

namespace anchorage::transport {

// "10.0.0.7:7100", "[::1]:7100".
std::string EndpointText(const tcp::endpoint& endpoint);

// Listens on "host:port". A name is resolved, which may take its time. InvalidArgument: not an
// address. FailedPrecondition: the port is taken or the address is not this machine's.
absl::StatusOr<tcp::acceptor> Listen(asio::io_context& io, const std::string& address);

// No delay; non-blocking, so that write_some and read_some report would_block; keep-alive probes,
// so that an idle connection to a machine that is gone ends within two minutes.
absl::Status TuneSocket(tcp::socket& socket);

// One connection attempt that can be given up.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  explicit Connector(asio::io_context& io) : socket_(io), resolver_(io), timer_(io) {}

  // Resolves and connects, once. Unavailable: no such name, nobody listens there, or time is over.
  // Cancelled: Cancel() was called. Whoever waits must hold a shared_ptr to this.
  asio::awaitable<absl::StatusOr<tcp::socket>> Run(std::string address, int64_t timeout_ms);
  void Cancel() { GiveUp(absl::CancelledError("stopped")); }

 private:
  asio::awaitable<absl::Status> Connect(std::string address);
  void GiveUp(absl::Status reason);

  tcp::socket socket_;
  tcp::resolver resolver_;
  asio::steady_timer timer_;
  absl::Status given_up_;
};

}  // namespace anchorage::transport
