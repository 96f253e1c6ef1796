#include "router/http_session.h"

#include <boost/beast/core/string.hpp>
#include <utility>

#include "router/completion_service.h"
#include "router/request_headers.h"

namespace anchorage::router {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

bool IsProbe(Route route) {
  return route == Route::kReady || route == Route::kLive || route == Route::kVersion;
}

}  // namespace

asio::awaitable<void> HttpSession::Run() {
  for (bool more = true; more && !context_.stopped;) {
    more = co_await connection_.WaitForRequest();
    if (more) more = co_await ServeOne();
  }
  if (connection_.is_open()) co_await connection_.Linger();
}

Exchange HttpSession::Begin(const HttpParser& parser, int64_t started_ns) const {
  const auto& request = parser.get();
  Exchange exchange;
  exchange.started_ns = started_ns;
  exchange.request_id = RequestIdOf(View(request["x-request-id"]));
  exchange.log_id = exchange.request_id;
  if (const std::string trace_id = TraceIdOf(View(request["traceparent"])); !trace_id.empty()) {
    exchange.log_id += " trace=" + trace_id;
  }
  exchange.method = View(request.method_string());
  exchange.version = request.version() == 10 ? 10 : 11;
  exchange.cors_fields = context_.options.cors.ForAnswer(View(request[http::field::origin]));
  return exchange;
}

asio::awaitable<bool> HttpSession::ServeOne() {
  const int64_t started_ns = context_.clock.NowNs();
  HttpParser parser;
  HttpConnection::ReadResult read = co_await connection_.ReadHeaders(parser);
  Exchange exchange = Begin(parser, started_ns);
  const auto& request = parser.get();
  if (read.ok) {
    exchange.match = MatchRoute(View(request.target()));
    read.error = CheckHeaders(parser, exchange);
    read.ok = !read.error.has_value();
  }
  if (read.ok) read = co_await connection_.ReadBody(parser, exchange.version);
  if (read.error) co_return co_await connection_.WriteError(exchange, *std::move(read.error));
  if (!read.ok) co_return false;
  exchange.keep_alive = request.keep_alive() && !context_.draining;
  if (exchange.method == "OPTIONS" && exchange.match.route != Route::kUnknown) {
    for (auto& field : context_.options.cors.ForPreflight(
             View(request[http::field::origin]), exchange.match.methods,
             View(request[http::field::access_control_request_headers]))) {
      exchange.cors_fields.push_back(std::move(field));
    }
  }
  std::string path(PathOf(View(request.target())));
  co_return co_await Answer(exchange, std::move(path), std::move(parser.get().body()));
}

asio::awaitable<bool> HttpSession::Answer(Exchange& exchange, std::string path, std::string body) {
  const Route route = exchange.match.route;
  if (route == Route::kUnknown) {
    co_return co_await connection_.WriteError(exchange, RouteNotFound(exchange.method, path));
  }
  if (!exchange.match.Allows(exchange.method)) {
    co_return co_await connection_.WriteError(exchange, MethodNotAllowed(exchange.method, path));
  }
  if (exchange.method == "OPTIONS") co_return co_await connection_.WriteReply(exchange, 204, "");
  if (route == Route::kChat || route == Route::kCompletions) {
    CompletionService service(context_, connection_, exchange);
    co_return co_await service.Answer(
        route == Route::kChat ? Endpoint::kChat : Endpoint::kCompletions, std::move(body));
  }
  ApiResult<std::string> answer = context_.small_answers.Answer(exchange.match, body);
  if (!answer.ok()) co_return co_await connection_.WriteError(exchange, answer.error());
  co_return co_await connection_.WriteReply(exchange, 200, *std::move(answer));
}

std::optional<ApiError> HttpSession::CheckHeaders(const HttpParser& parser,
                                                  const Exchange& exchange) const {
  const auto& request = parser.get();
  const std::string& key = context_.options.api_key;
  if (!key.empty() && !IsProbe(exchange.match.route) && exchange.method != "OPTIONS" &&
      !HasBearer(View(request[http::field::authorization]), key)) {
    return InvalidApiKey();
  }
  const std::string_view encoding = View(request[http::field::content_encoding]);
  if (!encoding.empty() && encoding != "identity") {
    return UnsupportedMediaType("Compressed request bodies are not supported.");
  }
  const auto expect = request[http::field::expect];
  if (!expect.empty() && !beast::iequals(expect, "100-continue")) {
    ApiError error = BadRequest("", "This expectation cannot be met.");
    error.status = 417;
    return error;
  }
  const std::string_view type = View(request[http::field::content_type]);
  if (exchange.method == "POST" && !type.empty() && !IsJson(type)) {
    return UnsupportedMediaType(
        "The request body must be sent with 'Content-Type: application/json'.");
  }
  return std::nullopt;
}

}  // namespace anchorage::router
