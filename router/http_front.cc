#include "router/http_front.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <set>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "observe/host_port.h"
#include "router/http_context.h"
#include "router/http_session.h"

namespace anchorage::router {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr auto kAcceptPause = std::chrono::milliseconds(50);

// Keeps a session in the set while both live, also when its coroutine is destroyed half-way.
class Listed {
 public:
  Listed(std::set<HttpSession*>* sessions, HttpSession* session)
      : sessions_(*sessions), session_(session) {
    sessions_.insert(session_);
  }
  ~Listed() { sessions_.erase(session_); }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

 private:
  std::set<HttpSession*>& sessions_;
  HttpSession* const session_;
};

}  // namespace

struct HttpFront::State {
  explicit State(HttpContext context) : context(std::move(context)), acceptor(this->context.io) {}

  absl::Status Listen();
  static asio::awaitable<void> Accept(std::shared_ptr<State> state);
  static asio::awaitable<void> Serve(std::shared_ptr<State> state, tcp::socket socket);

  HttpContext context;
  tcp::acceptor acceptor;
  std::string address;
  std::set<HttpSession*> sessions;
};

absl::Status HttpFront::State::Listen() {
  const std::string& listen = context.options.listen;
  ASSIGN_OR_RETURN(observe::HostPort wanted, observe::ParseHostPort(listen));
  error_code error;
  tcp::resolver resolver(context.io);
  const auto found =
      resolver.resolve(wanted.host, std::to_string(wanted.port), tcp::resolver::passive, error);
  if (error || found.empty()) return Invalid("cannot resolve '%s': %s", listen, error.message());
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return Unavailable("cannot listen on '%s': %s", listen, error.message());
  wanted.port = acceptor.local_endpoint(error).port();
  address = wanted.ToString();
  return absl::OkStatus();
}

asio::awaitable<void> HttpFront::State::Accept(std::shared_ptr<State> state) {
  const auto most = static_cast<size_t>(state->context.options.max_connections);
  asio::steady_timer pause(state->context.io);
  while (!state->context.stopped) {
    auto [error, socket] = co_await state->acceptor.async_accept(kNoThrow);
    if (state->context.stopped) break;
    if (error) {  // out of descriptors, most likely: let some connections end
      pause.expires_after(kAcceptPause);
      co_await pause.async_wait(kNoThrow);
    } else if (state->sessions.size() < most) {
      asio::co_spawn(state->context.io, Serve(state, std::move(socket)), asio::detached);
    }
  }
}

asio::awaitable<void> HttpFront::State::Serve(std::shared_ptr<State> state, tcp::socket socket) {
  HttpSession session(state->context, std::move(socket));
  const Listed listed(&state->sessions, &session);
  co_await session.Run();
}

HttpFront::HttpFront(std::shared_ptr<State> state) : state_(std::move(state)) {}
HttpFront::~HttpFront() { Stop(); }

absl::StatusOr<std::unique_ptr<HttpFront>> HttpFront::Start(
    asio::io_context& io, const HttpOptions& options, const ServedModel* model,
    const SpecLimits& limits, Engine* engine, const Clock* clock, RouterMetrics* metrics) {
  auto state = std::make_shared<State>(HttpContext{
      .io = io,
      .options = options,
      .model = *model,
      .limits = limits,
      .engine = *engine,
      .clock = *clock,
      .metrics = *metrics,
      .small_answers = SmallAnswers(model, engine, static_cast<int64_t>(clock->WallSeconds()))});
  RETURN_IF_ERROR(state->Listen());
  asio::co_spawn(io, State::Accept(state), asio::detached);
  return std::unique_ptr<HttpFront>(new HttpFront(std::move(state)));
}

std::string HttpFront::address() const { return state_->address; }
int HttpFront::connections() const { return static_cast<int>(state_->sessions.size()); }
int HttpFront::answering() const { return state_->context.answering; }
void HttpFront::BeginDrain() { state_->context.draining = true; }

void HttpFront::Stop() {
  if (state_->context.stopped) return;
  state_->context.stopped = true;
  error_code ignored;
  state_->acceptor.close(ignored);
  for (HttpSession* session : state_->sessions) session->Close();
}

}  // namespace anchorage::router
