#include "observe/probes.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <thread>

#include "common/status.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "observe/host_port.h"

namespace anchorage::observe {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

constexpr size_t kMaxHeaderBytes = 8 << 10;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

using Response = http::response<http::string_body>;

Response Answer(http::status status, std::string_view type, std::string body) {
  Response response;
  response.result(status);
  response.set(http::field::content_type, beast::string_view(type.data(), type.size()));
  response.set(http::field::cache_control, "no-store");
  response.body() = std::move(body);
  return response;
}

Response TextAnswer(http::status status, std::string_view text) {
  return Answer(status, "text/plain; charset=utf-8", absl::StrFormat("%s\n", text));
}

Response CheckAnswer(const std::function<absl::Status()>& check) {
  const absl::Status status = check ? check() : absl::OkStatus();
  if (status.ok()) return TextAnswer(http::status::ok, "ok");
  return TextAnswer(http::status::service_unavailable, std::string(status.message()));
}

}  // namespace

struct ProbeServer::State {
  State(const ProbeOptions& options, const MetricsRegistry* registry, ProbeChecks checks)
      : options(options), registry(registry), checks(std::move(checks)), acceptor(io) {}

  absl::Status Listen();
  void Run();
  asio::awaitable<void> Accept();
  asio::awaitable<void> Serve(tcp::socket socket);
  asio::awaitable<bool> AnswerOne(beast::tcp_stream& stream, beast::flat_buffer& buffer) const;
  Response Respond(const http::request<http::empty_body>& request) const;
  Response Route(beast::string_view target) const;

  const ProbeOptions options;
  const MetricsRegistry* const registry;
  const ProbeChecks checks;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  int num_connections = 0;
  std::string address;
  std::thread thread;
};

absl::Status ProbeServer::State::Listen() {
  ASSIGN_OR_RETURN(HostPort wanted, ParseHostPort(options.listen));
  beast::error_code error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(wanted.host, std::to_string(wanted.port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return Invalid("cannot resolve '%s': %s", options.listen, error.message());
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return Unavailable("cannot listen on '%s': %s", options.listen, error.message());
  wanted.port = acceptor.local_endpoint(error).port();
  address = wanted.ToString();
  return absl::OkStatus();
}

void ProbeServer::State::Run() {
  asio::co_spawn(io, Accept(), asio::detached);
  thread = std::thread([this] { io.run(); });
}

asio::awaitable<void> ProbeServer::State::Accept() {
  asio::steady_timer pause(io);
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(kNoThrow);
    if (!error && num_connections < options.max_connections) {
      asio::co_spawn(io, Serve(std::move(socket)), asio::detached);
    } else if (error) {  // out of descriptors, most likely: let some connections end
      pause.expires_after(kAcceptPause);
      co_await pause.async_wait(kNoThrow);
    }
  }
}

asio::awaitable<void> ProbeServer::State::Serve(tcp::socket socket) {
  ++num_connections;
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer(2 * kMaxHeaderBytes);
  while (co_await AnswerOne(stream, buffer)) {
  }
  beast::error_code ignored;
  stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  --num_connections;
}

// False: the connection is over.
asio::awaitable<bool> ProbeServer::State::AnswerOne(beast::tcp_stream& stream,
                                                    beast::flat_buffer& buffer) const {
  const auto timeout = std::chrono::milliseconds(options.timeout_ms);
  http::request_parser<http::empty_body> parser;
  parser.header_limit(kMaxHeaderBytes);
  stream.expires_after(timeout);
  const auto [read_error, read_bytes] =
      co_await http::async_read_header(stream, buffer, parser, kNoThrow);
  if (read_error && !parser.got_some()) co_return false;
  const auto& request = parser.get();
  Response response =
      read_error ? TextAnswer(http::status::bad_request, "bad request") : Respond(request);
  // A body is never read, so what follows it cannot be found either.
  const bool keep_alive = !read_error && parser.is_done() && request.keep_alive();
  response.version(11);
  response.keep_alive(keep_alive);
  response.prepare_payload();
  http::response_serializer<http::string_body> serializer(response);
  stream.expires_after(timeout);
  if (request.method() == http::verb::head) {
    const auto [error, bytes] = co_await http::async_write_header(stream, serializer, kNoThrow);
    co_return keep_alive && !error;
  }
  const auto [error, bytes] = co_await http::async_write(stream, serializer, kNoThrow);
  co_return keep_alive && !error;
}

Response ProbeServer::State::Respond(const http::request<http::empty_body>& request) const {
  if (request.method() == http::verb::get || request.method() == http::verb::head) {
    return Route(request.target());
  }
  Response response = TextAnswer(http::status::method_not_allowed, "method not allowed");
  response.set(http::field::allow, "GET, HEAD");
  return response;
}

Response ProbeServer::State::Route(beast::string_view target) const {
  const beast::string_view path = target.substr(0, target.find('?'));
  if (path == "/live") return CheckAnswer(checks.live);
  if (path == "/ready" || path == "/health") return CheckAnswer(checks.ready);
  if (path == "/version") {
    return Answer(http::status::ok, "application/json",
                  absl::StrFormat("{\"version\":\"%s\",\"commit\":\"%s\"}\n", kVersion, kCommit));
  }
  if (path == "/metrics") {
    return Answer(http::status::ok, "text/plain; version=0.0.4; charset=utf-8",
                  registry->Serialize());
  }
  return TextAnswer(http::status::not_found, "not found");
}

ProbeServer::ProbeServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

ProbeServer::~ProbeServer() {
  state_->io.stop();
  state_->thread.join();
}

absl::StatusOr<std::unique_ptr<ProbeServer>> ProbeServer::Start(const ProbeOptions& options,
                                                                const MetricsRegistry* registry,
                                                                ProbeChecks checks) {
  auto state = std::make_unique<State>(options, registry, std::move(checks));
  RETURN_IF_ERROR(state->Listen());
  state->Run();
  return std::unique_ptr<ProbeServer>(new ProbeServer(std::move(state)));
}

std::string ProbeServer::address() const { return state_->address; }

}  // namespace anchorage::observe
