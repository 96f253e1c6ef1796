#include "router/http_connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"

namespace anchorage::router {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::beast::error_code;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr auto kLinger = std::chrono::seconds(2);
constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kMaxPipelinedBytes = 64 << 10;
constexpr size_t kMaxLingerBytes = 8 << 20;

// Not a broken connection, but bytes that are not HTTP.
bool IsMalformed(const error_code& error) {
  return error.category() == make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

}  // namespace

HttpConnection::HttpConnection(HttpContext& context, tcp::socket socket)
    : context_(context), stream_(std::move(socket)), buffer_(kMaxPipelinedBytes + 2 * kReadBytes) {
  error_code ignored;
  stream_.socket().set_option(tcp::no_delay(true), ignored);
}

void HttpConnection::Close() {
  error_code ignored;
  stream_.socket().close(ignored);
}

void HttpConnection::StartDeadline(int64_t timeout_ms) {
  stream_.expires_after(std::chrono::milliseconds(timeout_ms));
}

void HttpConnection::Count(Exchange& exchange, int code) {
  if (std::exchange(exchange.counted, true)) return;  // its client left during the answer
  context_.metrics.CountRequest(exchange.match.label, code, exchange.known_model);
}

asio::awaitable<void> HttpConnection::Linger() {
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  buffer_.consume(buffer_.size());
  stream_.expires_after(kLinger);
  for (size_t total = 0; total < kMaxLingerBytes;) {
    auto [error, bytes] = co_await stream_.async_read_some(buffer_.prepare(kReadBytes), kNoThrow);
    if (error) break;
    total += bytes;
  }
  Close();
}

// --- Reading -------------------------------------------------------------------------------------

asio::awaitable<bool> HttpConnection::WaitForRequest() {
  if (buffer_.size() > 0) co_return true;  // pipelined
  StartDeadline(context_.options.idle_timeout_ms);
  auto [error, bytes] = co_await stream_.async_read_some(buffer_.prepare(kReadBytes), kNoThrow);
  if (error) co_return false;
  buffer_.commit(bytes);
  co_return true;
}

asio::awaitable<HttpConnection::ReadResult> HttpConnection::ReadHeaders(HttpParser& parser) {
  parser.header_limit(static_cast<uint32_t>(context_.options.max_header_bytes));
  parser.body_limit(static_cast<uint64_t>(context_.options.max_body_bytes));
  StartDeadline(context_.options.header_timeout_ms);
  auto [failed, bytes] = co_await http::async_read_header(stream_, buffer_, parser, kNoThrow);
  ReadResult result{.ok = !failed, .error = {}};
  if (failed == http::error::body_limit) {
    result.error = BodyTooLarge(context_.options.max_body_bytes);
  } else if (failed == http::error::header_limit || failed == http::error::buffer_overflow) {
    result.error = BadRequest("", "The request's headers are too large.");
    result.error->status = 431;
  } else if (failed && IsMalformed(failed)) {
    result.error = BadRequest("", "This is not a valid HTTP request.");
  }
  co_return result;
}

asio::awaitable<HttpConnection::ReadResult> HttpConnection::ReadBody(HttpParser& parser,
                                                                     unsigned version) {
  if (parser.is_done()) co_return ReadResult{.ok = true, .error = {}};
  const bool waits =
      version == 11 && buffer_.size() == 0 && !parser.get()[http::field::expect].empty();
  if (waits) {
    const bool written = co_await WriteRaw("HTTP/1.1 100 Continue\r\n\r\n");
    if (!written) co_return ReadResult();
  }
  StartDeadline(context_.options.body_timeout_ms);
  auto [failed, bytes] = co_await http::async_read(stream_, buffer_, parser, kNoThrow);
  ReadResult result{.ok = !failed, .error = {}};
  if (failed == http::error::body_limit) {
    result.error = BodyTooLarge(context_.options.max_body_bytes);
  } else if (failed && IsMalformed(failed)) {
    result.error = BadRequest("", "The request's body is not valid HTTP.");
  }
  co_return result;
}

asio::awaitable<bool> HttpConnection::WaitUntilGone() {
  for (;;) {
    if (buffer_.size() >= kMaxPipelinedBytes) co_return true;  // a flood: not one that we serve
    auto [error, bytes] =
        co_await stream_.socket().async_read_some(buffer_.prepare(kReadBytes), kNoThrow);
    if (error == asio::error::operation_aborted && is_open()) co_return false;
    if (error) co_return true;
    buffer_.commit(bytes);
  }
}

// --- Writing -------------------------------------------------------------------------------------

asio::awaitable<bool> HttpConnection::WriteReply(Exchange& exchange, int status, std::string body) {
  co_return co_await Write(exchange, status, std::move(body), /*retry_after_seconds=*/0);
}

asio::awaitable<bool> HttpConnection::WriteError(Exchange& exchange, ApiError error) {
  context_.metrics.CountError(error.reason);
  co_return co_await Write(exchange, error.status, ErrorBody(error), error.retry_after_seconds);
}

asio::awaitable<bool> HttpConnection::Write(Exchange& exchange, int status, std::string body,
                                            int64_t retry_after_seconds) {
  Count(exchange, status);
  exchange.keep_alive = exchange.keep_alive && !context_.draining;
  http::response<http::string_body> response;
  response.version(exchange.version);
  response.result(static_cast<unsigned>(status));
  response.set("x-request-id", exchange.request_id);
  response.set("openai-processing-ms",
               std::to_string((context_.clock.NowNs() - exchange.started_ns) / 1'000'000));
  for (const auto& [name, value] : exchange.cors_fields) response.set(name, value);
  if (status != 204) response.set(http::field::content_type, "application/json");
  if (status == 204 || status == 405) response.set(http::field::allow, exchange.match.methods);
  if (status == 401) response.set(http::field::www_authenticate, "Bearer");
  if (retry_after_seconds > 0) {
    response.set(http::field::retry_after, std::to_string(retry_after_seconds));
  }
  response.keep_alive(exchange.keep_alive);
  response.body() = std::move(body);
  if (status != 204) response.prepare_payload();
  StartDeadline(context_.options.write_timeout_ms);
  if (exchange.method == "HEAD") {
    http::response<http::empty_body> head(response.base());
    http::response_serializer<http::empty_body> serializer(head);
    auto [failed, bytes] = co_await http::async_write_header(stream_, serializer, kNoThrow);
    co_return !failed && exchange.keep_alive;
  }
  auto [failed, bytes] = co_await http::async_write(stream_, response, kNoThrow);
  co_return !failed && exchange.keep_alive;
}

asio::awaitable<bool> HttpConnection::WriteStreamHead(const Exchange& exchange) {
  std::string head = absl::StrFormat(
      "HTTP/1.%d 200 OK\r\n"
      "Content-Type: text/event-stream; charset=utf-8\r\n"
      "Cache-Control: no-cache\r\n"
      "X-Accel-Buffering: no\r\n"
      "x-request-id: %s\r\n",
      exchange.version - 10, exchange.request_id);
  for (const auto& [name, value] : exchange.cors_fields) {
    head += absl::StrFormat("%s: %s\r\n", name, value);
  }
  if (exchange.version == 11) head += "Transfer-Encoding: chunked\r\n";
  if (!exchange.keep_alive || exchange.version == 10) head += "Connection: close\r\n";
  co_return co_await WriteRaw(head + "\r\n");
}

asio::awaitable<bool> HttpConnection::WriteStreamPart(const Exchange& exchange, std::string data,
                                                      bool last) {
  if (exchange.version == 10) co_return co_await WriteRaw(std::move(data));
  std::string bytes;
  if (!data.empty()) bytes = absl::StrFormat("%x\r\n%s\r\n", data.size(), data);
  if (last) bytes += "0\r\n\r\n";
  // Two statements: GCC 12 computes `a || co_await b` wrongly.
  if (bytes.empty()) co_return true;
  co_return co_await WriteRaw(std::move(bytes));
}

asio::awaitable<bool> HttpConnection::WriteRaw(std::string bytes) {
  StartDeadline(context_.options.write_timeout_ms);
  auto [error, written] = co_await asio::async_write(stream_, asio::buffer(bytes), kNoThrow);
  stream_.expires_never();
  co_return !error;
}

}  // namespace anchorage::router
