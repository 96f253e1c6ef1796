#include "eval/http/http_client.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/status.h"

namespace anchorage::eval {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using beast::error_code;

constexpr uint64_t kMaxReplyBytes = uint64_t{64} << 20;

std::string_view ToStd(beast::string_view text) { return {text.data(), text.size()}; }

// One exchange: resolve, then connect, write and read, each run to its end or to the deadline. The
// system's resolver cannot be interrupted: it is bounded only by its own timeouts, some seconds.
class Exchange {
 public:
  Exchange(const HttpEndpoint& endpoint, int64_t timeout_s)
      : endpoint_(endpoint), stream_(io_), deadline_(Clock::now() + Seconds(timeout_s)) {}

  absl::StatusOr<HttpReply> Run(const http::request<http::string_body>& request) {
    error_code error;
    tcp::resolver resolver(io_);
    const auto addresses = resolver.resolve(endpoint_.host, endpoint_.port, error);
    if (error) return Failed("find its address", error);
    error = Await([&](auto done) {
      stream_.async_connect(addresses,
                            [done](error_code result, const tcp::endpoint&) { done(result); });
    });
    if (error) return Failed("connect", error);
    error = Await([&](auto done) {
      http::async_write(stream_, request, [done](error_code result, size_t) { done(result); });
    });
    if (error) return Failed("send", error);
    http::response_parser<http::string_body> parser;
    parser.body_limit(kMaxReplyBytes);
    error = Await([&](auto done) {
      http::async_read(stream_, buffer_, parser,
                       [done](error_code result, size_t) { done(result); });
    });
    if (error) return Failed("read the reply", error);
    return ReplyOf(parser.get());
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::seconds;

  template <typename Start>
  error_code Await(Start start) {
    error_code outcome;
    stream_.expires_at(deadline_);
    start([&outcome](error_code result) { outcome = result; });
    io_.restart();
    io_.run();
    return outcome;
  }

  static HttpReply ReplyOf(const http::response<http::string_body>& response) {
    HttpReply reply;
    reply.status = static_cast<int>(response.result_int());
    reply.body = response.body();
    const std::string_view retry_after = ToStd(response[http::field::retry_after]);
    if (!absl::SimpleAtoi(std::string(retry_after), &reply.retry_after_s)) reply.retry_after_s = 0;
    return reply;
  }

  absl::Status Failed(const char* what, const error_code& error) const {
    if (error == beast::error::timeout) {
      return absl::DeadlineExceededError(
          absl::StrFormat("%s: no answer in time (could not %s)", endpoint_.ToString(), what));
    }
    return Unavailable("%s: cannot %s: %s", endpoint_.ToString(), what, error.message());
  }

  const HttpEndpoint& endpoint_;
  asio::io_context io_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  const Clock::time_point deadline_;
};

}  // namespace

absl::StatusOr<HttpEndpoint> ParseEndpoint(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) {
    return Invalid("'%s' is not an http:// address (https is not spoken; use a local proxy)",
                   std::string(url));
  }
  const std::string_view rest = url.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view authority = rest.substr(0, slash);
  const size_t bracket = authority.rfind(']');
  const size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  HttpEndpoint endpoint;
  endpoint.host = std::string(authority.substr(0, colon));
  endpoint.port = colon == std::string_view::npos ? "80" : std::string(authority.substr(colon + 1));
  endpoint.path = std::string(rest.substr(slash));
  while (endpoint.path.ends_with('/')) endpoint.path.pop_back();
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  }
  int port = 0;
  if (endpoint.host.empty() || !absl::SimpleAtoi(endpoint.port, &port) || port < 1 ||
      port > 65535) {
    return Invalid("'%s' is not of the form http://host:port/v1", std::string(url));
  }
  return endpoint;
}

absl::StatusOr<HttpReply> PostJson(const HttpEndpoint& endpoint, std::string_view path,
                                   const std::string& json, const std::string& bearer,
                                   int64_t timeout_s) {
  const std::string target = endpoint.path + std::string(path);
  http::request<http::string_body> request(http::verb::post, target, 11);
  request.set(http::field::host, endpoint.Authority());
  request.set(http::field::user_agent, "anchorage-eval");
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!bearer.empty()) request.set(http::field::authorization, "Bearer " + bearer);
  request.body() = json;
  request.prepare_payload();
  return Exchange(endpoint, timeout_s).Run(request);
}

}  // namespace anchorage::eval
