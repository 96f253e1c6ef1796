// The wire of one HTTP/1.1 connection: requests in, answers out, each step under a deadline.
// Private to the HTTP front.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "router/api_error.h"
#include "router/exchange.h"
#include "router/http_context.h"

namespace anchorage::router {

using HttpParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

class HttpConnection {
 public:
  // `context` must outlive it.
  HttpConnection(HttpContext& context, boost::asio::ip::tcp::socket socket);

  bool is_open() const { return stream_.socket().is_open(); }
  void Close();
  // Says that nothing more comes, then reads on for a moment: closing with unread bytes would reset
  // the connection and could destroy the answer on its way.
  boost::asio::awaitable<void> Linger();

  // Until bytes of a next request are there. False when the client has gone or was idle too long.
  boost::asio::awaitable<bool> WaitForRequest();

  // Not ok without an error: the client has gone, or is too slow to be answered.
  struct ReadResult {
    bool ok = false;
    std::optional<ApiError> error;
  };
  boost::asio::awaitable<ReadResult> ReadHeaders(HttpParser& parser);
  // Tells a client that asks (Expect: 100-continue) to go on.
  boost::asio::awaitable<ReadResult> ReadBody(HttpParser& parser, unsigned version);

  // Reads ahead, so that a client that leaves is noticed at once; what it pipelines is kept. True
  // when it has left, false when this was cancelled.
  boost::asio::awaitable<bool> WaitUntilGone();

  // A whole answer. Whether the connection may be used again.
  boost::asio::awaitable<bool> WriteReply(Exchange& exchange, int status, std::string body);
  boost::asio::awaitable<bool> WriteError(Exchange& exchange, ApiError error);

  // An event stream: its head, then its parts. Whether the client took it.
  boost::asio::awaitable<bool> WriteStreamHead(const Exchange& exchange);
  boost::asio::awaitable<bool> WriteStreamPart(const Exchange& exchange, std::string data,
                                               bool last);
  // From now on a write may take its time and reading has no deadline.
  void StopDeadline() { stream_.expires_never(); }

  // Counts the request as finished with that code, unless it was counted before.
  void Count(Exchange& exchange, int code);

 private:
  void StartDeadline(int64_t timeout_ms);
  boost::asio::awaitable<bool> Write(Exchange& exchange, int status, std::string body,
                                     int64_t retry_after_seconds);
  boost::asio::awaitable<bool> WriteRaw(std::string bytes);

  HttpContext& context_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
};

}  // namespace anchorage::router
