#include "transport/net/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <tuple>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "observe/host_port.h"
#include "transport/net/error_code.h"

namespace anchorage::transport {
namespace {

using observe::HostPort;

// The first endpoint that `where` names.
absl::StatusOr<tcp::endpoint> ResolveNow(asio::io_context& io, const HostPort& where) {
  error_code error;
  const asio::ip::address numeric = asio::ip::make_address(where.host, error);
  if (!error) return tcp::endpoint(numeric, where.port);
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(where.host, std::to_string(where.port), tcp::resolver::passive, error);
  RETURN_IF_ERROR(FromErrorCode(error, "resolving " + where.host));
  return found.begin()->endpoint();
}

}  // namespace

std::string EndpointText(const tcp::endpoint& endpoint) {
  return HostPort{endpoint.address().to_string(), endpoint.port()}.ToString();
}

absl::StatusOr<tcp::acceptor> Listen(asio::io_context& io, const std::string& address) {
  ASSIGN_OR_RETURN(const HostPort where, observe::ParseHostPort(address));
  ASSIGN_OR_RETURN(const tcp::endpoint endpoint, ResolveNow(io, where));
  tcp::acceptor acceptor(io);
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  RETURN_IF_ERROR(FromErrorCode(error, "listening on " + address));
  return acceptor;
}

absl::Status TuneSocket(tcp::socket& socket) {
  using KeepIdle = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
  using KeepInterval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
  using KeepCount = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPCNT>;
  error_code error;
  socket.non_blocking(true, error);
  if (!error) socket.set_option(tcp::no_delay(true), error);
  if (!error) socket.set_option(tcp::socket::keep_alive(true), error);
  if (!error) socket.set_option(KeepIdle(60), error);
  if (!error) socket.set_option(KeepInterval(15), error);
  if (!error) socket.set_option(KeepCount(4), error);
  return FromErrorCode(error, "setting socket options");
}

asio::awaitable<absl::StatusOr<tcp::socket>> Connector::Run(std::string address,
                                                            int64_t timeout_ms) {
  timer_.expires_after(std::chrono::milliseconds(timeout_ms));
  timer_.async_wait([self = shared_from_this(), address, timeout_ms](const error_code& error) {
    if (error) return;
    self->GiveUp(Unavailable("connecting to %s: no answer in %d ms", address, timeout_ms));
  });
  const absl::Status connected = co_await Connect(std::move(address));
  timer_.cancel();
  CO_RETURN_IF_ERROR(given_up_);
  CO_RETURN_IF_ERROR(connected);
  co_return std::move(socket_);
}

asio::awaitable<absl::Status> Connector::Connect(std::string address) {
  CO_ASSIGN_OR_RETURN(const HostPort where, observe::ParseHostPort(address));
  const std::string what = "connecting to " + address;
  error_code error;
  const asio::ip::address numeric = asio::ip::make_address(where.host, error);
  if (!error) {
    std::tie(error) = co_await socket_.async_connect(tcp::endpoint(numeric, where.port), kNoThrow);
    co_return FromErrorCode(error, what);
  }
  tcp::resolver::results_type found;
  std::tie(error, found) =
      co_await resolver_.async_resolve(where.host, std::to_string(where.port), kNoThrow);
  CO_RETURN_IF_ERROR(FromErrorCode(error, what));
  for (const auto& entry : found) {
    if (!given_up_.ok()) break;
    if (socket_.is_open()) socket_.close(error);
    std::tie(error) = co_await socket_.async_connect(entry.endpoint(), kNoThrow);
    if (!error) break;
  }
  co_return FromErrorCode(error, what);
}

void Connector::GiveUp(absl::Status reason) {
  if (!given_up_.ok()) return;
  given_up_ = std::move(reason);
  error_code ignored;
  timer_.cancel();
  resolver_.cancel();
  socket_.close(ignored);
}

}  // namespace anchorage::transport
