// The requests of one connection, one after the other. Private to the HTTP front.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <string>

#include "router/exchange.h"
#include "router/http_connection.h"
#include "router/http_context.h"

namespace anchorage::router {

class HttpSession {
 public:
  // `context` must outlive it.
  HttpSession(HttpContext& context, boost::asio::ip::tcp::socket socket)
      : context_(context), connection_(context, std::move(socket)) {}

  // Until the client goes, is idle for too long or breaks the protocol.
  boost::asio::awaitable<void> Run();

  // From outside: ends Run() and cancels what it waits for.
  void Close() { connection_.Close(); }

 private:
  // Reads and answers one request. Whether another may follow.
  boost::asio::awaitable<bool> ServeOne();
  boost::asio::awaitable<bool> Answer(Exchange& exchange, std::string path, std::string body);
  // What the headers say of the request, and what its answer needs of them.
  Exchange Begin(const HttpParser& parser, int64_t started_ns) const;
  // What makes reading the body pointless; the connection closes after such an answer.
  std::optional<ApiError> CheckHeaders(const HttpParser& parser, const Exchange& exchange) const;

  HttpContext& context_;
  HttpConnection connection_;
};

}  // namespace anchorage::router
