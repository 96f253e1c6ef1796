#include "router/http_front.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <set>

#include "common/ids.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "observe/host_port.h"
#include "observe/logging.h"
#include "router/completion_writer.h"
#include "router/request_parser.h"
#include "router/routes.h"
#include "router/small_answers.h"

namespace anchorage::router {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using asio::experimental::awaitable_operators::operator||;
using beast::error_code;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr auto kAcceptPause = std::chrono::milliseconds(50);
constexpr auto kLinger = std::chrono::seconds(2);
constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kMaxPipelinedBytes = 64 << 10;
constexpr size_t kMaxLingerBytes = 8 << 20;
constexpr size_t kMaxRequestIdBytes = 128;
constexpr size_t kMaxPendingTextBytes = 1 << 20;
constexpr int kClientClosedRequest = 499;

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }
beast::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// The client's own id if it is fit for logs and headers, else a new one.
std::string RequestIdOf(std::string_view header) {
  const auto is_visible = [](char c) { return c > 0x20 && c < 0x7f; };
  if (!header.empty() && header.size() <= kMaxRequestIdBytes &&
      std::all_of(header.begin(), header.end(), is_visible)) {
    return std::string(header);
  }
  return absl::StrFormat("req-%016x", RandomU64());
}

bool IsJson(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return beast::iequals(View(type), "application/json") || type.ends_with("+json");
}

// Compares in time that depends on the lengths alone.
bool SameKey(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

// Holds what a request has produced until its connection takes it.
class Outbox : public ResponseSink {
 public:
  explicit Outbox(asio::io_context& io) : wake_(io) {}

  void OnTokens(std::span<const int32_t> ids, std::string_view text) override {
    has_token_ = true;
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    text_ += text;
    wake_.cancel();
  }
  void OnEnd(const Outcome& outcome) override {
    outcome_ = outcome;
    wake_.cancel();
  }

  // Tokens without text to show are no news but for the first: they go with the next text.
  bool has_news() const { return outcome_ || !text_.empty() || (has_token_ && !token_seen_); }
  bool overflows() const { return text_.size() > kMaxPendingTextBytes; }
  bool has_token() const { return has_token_; }
  const std::optional<Outcome>& outcome() const { return outcome_; }
  const std::vector<int32_t>& ids() const { return ids_; }
  const std::string& text() const { return text_; }
  // What came is with the client.
  void Clear() {
    token_seen_ = has_token_;
    ids_.clear();
    text_.clear();
  }

  // Until there is news, or `pause` is over.
  asio::awaitable<void> Wait(std::chrono::milliseconds pause) {
    const auto deadline = asio::steady_timer::clock_type::now() + pause;
    while (!has_news() && asio::steady_timer::clock_type::now() < deadline) {
      wake_.expires_at(deadline);
      co_await wake_.async_wait(kNoThrow);
    }
  }
  asio::awaitable<void> WaitForEnd() {
    wake_.expires_at(asio::steady_timer::time_point::max());
    while (!outcome_) co_await wake_.async_wait(kNoThrow);
  }

 private:
  asio::steady_timer wake_;
  std::vector<int32_t> ids_;
  std::string text_;
  bool has_token_ = false;
  bool token_seen_ = false;
  std::optional<Outcome> outcome_;
};

class Session;

}  // namespace

struct HttpFront::State {
  State(asio::io_context& io, const HttpOptions& options, const ServedModel* model,
        const SpecLimits& limits, Engine* engine, const Clock* clock, RouterMetrics* metrics)
      : io(io),
        options(options),
        model(*model),
        limits(limits),
        engine(*engine),
        clock(*clock),
        metrics(*metrics),
        small_answers(model, engine, static_cast<int64_t>(clock->WallSeconds())),
        acceptor(io) {}

  absl::Status Listen();
  static asio::awaitable<void> Accept(std::shared_ptr<State> state);

  asio::io_context& io;
  const HttpOptions options;
  const ServedModel& model;
  const SpecLimits limits;
  Engine& engine;
  const Clock& clock;
  RouterMetrics& metrics;
  const SmallAnswers small_answers;
  tcp::acceptor acceptor;
  std::string address;
  std::set<Session*> sessions;
  bool draining = false;
  bool stopped = false;
};

namespace {

using Parser = http::request_parser<http::string_body>;

// One connection. Its coroutine owns it.
class Session {
 public:
  Session(std::shared_ptr<HttpFront::State> front, tcp::socket socket)
      : front_(*front), keep_alive_front_(std::move(front)), stream_(std::move(socket)) {
    front_.sessions.insert(this);
  }
  ~Session() { front_.sessions.erase(this); }

  static asio::awaitable<void> Serve(std::unique_ptr<Session> session) { co_await session->Run(); }
  void Close() {
    error_code ignored;
    stream_.socket().close(ignored);
  }

 private:
  // Everything about the request that is being answered.
  struct Exchange {
    RouteMatch match;
    std::string method;
    std::string request_id;
    int64_t started_ns = 0;
    unsigned version = 11;
    bool keep_alive = false;
    bool known_model = true;
    bool counted = false;
  };

  asio::awaitable<void> Run();
  asio::awaitable<bool> WaitForRequest();
  asio::awaitable<bool> ServeOne();
  asio::awaitable<bool> ReadBody(Parser& parser, Exchange& exchange, ApiError& error);
  std::optional<ApiError> CheckHeaders(const Parser& parser, const Exchange& exchange) const;
  asio::awaitable<bool> AnswerSmall(Exchange& exchange, std::string_view body);
  asio::awaitable<bool> AnswerCompletion(Exchange& exchange, std::string_view body);
  asio::awaitable<bool> Deliver(Exchange& exchange, const CompletionWriter& writer, bool stream,
                                std::shared_ptr<Outbox> outbox, uint64_t request);
  asio::awaitable<bool> DeliverWhole(Exchange& exchange, const CompletionWriter& writer,
                                     std::shared_ptr<Outbox> outbox);
  asio::awaitable<bool> DeliverStream(Exchange& exchange, const CompletionWriter& writer,
                                      std::shared_ptr<Outbox> outbox, uint64_t request);
  asio::awaitable<const char*> WatchForDisconnect(uint64_t request);

  asio::awaitable<bool> WriteError(Exchange& exchange, ApiError error);
  asio::awaitable<bool> WriteReply(Exchange& exchange, int status, std::string body,
                                   const ApiError* error);
  asio::awaitable<bool> WriteStreamHead(const Exchange& exchange);
  asio::awaitable<bool> WriteStreamPart(const Exchange& exchange, std::string data, bool last);
  asio::awaitable<bool> WriteRaw(std::string bytes);
  asio::awaitable<void> Linger();

  void StartDeadline(int64_t timeout_ms) {
    stream_.expires_after(std::chrono::milliseconds(timeout_ms));
  }
  void Count(Exchange& exchange, int code) {
    if (std::exchange(exchange.counted, true)) return;  // its client left during the answer
    front_.metrics.CountRequest(exchange.match.label, code, exchange.known_model);
  }

  HttpFront::State& front_;
  const std::shared_ptr<HttpFront::State> keep_alive_front_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kMaxPipelinedBytes + 2 * kReadBytes};
};

asio::awaitable<void> Session::Run() {
  error_code ignored;
  stream_.socket().set_option(tcp::no_delay(true), ignored);
  for (bool more = true; more && !front_.stopped;) {
    more = co_await WaitForRequest();
    if (more) more = co_await ServeOne();
  }
  if (stream_.socket().is_open()) co_await Linger();
}

// False when the client has gone or been idle for too long.
asio::awaitable<bool> Session::WaitForRequest() {
  if (buffer_.size() > 0) co_return true;  // pipelined
  StartDeadline(front_.options.idle_timeout_ms);
  auto [error, bytes] = co_await stream_.async_read_some(buffer_.prepare(kReadBytes), kNoThrow);
  if (error) co_return false;
  buffer_.commit(bytes);
  co_return true;
}

// Reads and answers one request. Whether another may follow.
asio::awaitable<bool> Session::ServeOne() {
  Exchange exchange;
  exchange.started_ns = front_.clock.NowNs();
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(front_.options.max_header_bytes));
  parser.body_limit(static_cast<uint64_t>(front_.options.max_body_bytes));
  StartDeadline(front_.options.header_timeout_ms);
  auto [read_error, bytes] = co_await http::async_read_header(stream_, buffer_, parser, kNoThrow);
  const auto& request = parser.get();
  exchange.request_id = RequestIdOf(View(request["x-request-id"]));
  exchange.method = View(request.method_string());
  exchange.version = request.version() == 10 ? 10 : 11;
  if (read_error == http::error::body_limit) {
    co_return co_await WriteError(exchange, BodyTooLarge(front_.options.max_body_bytes));
  }
  if (read_error == http::error::header_limit || read_error == http::error::buffer_overflow) {
    ApiError error = BadRequest("", "The request's headers are too large.");
    error.status = 431;
    co_return co_await WriteError(exchange, std::move(error));
  }
  if (read_error) {
    const bool malformed =
        read_error.category() == make_error_code(http::error::bad_method).category();
    if (!malformed || read_error == http::error::end_of_stream ||
        read_error == http::error::partial_message) {
      co_return false;  // gone, or too slow
    }
    co_return co_await WriteError(exchange, BadRequest("", "This is not a valid HTTP request."));
  }
  exchange.match = MatchRoute(View(request.target()));
  if (auto error = CheckHeaders(parser, exchange)) {
    co_return co_await WriteError(exchange, *std::move(error));
  }
  ApiError body_error;
  if (!co_await ReadBody(parser, exchange, body_error)) {
    if (body_error.message.empty()) co_return false;
    co_return co_await WriteError(exchange, std::move(body_error));
  }
  exchange.keep_alive = request.keep_alive() && !front_.draining;
  if (exchange.match.route == Route::kUnknown) {
    co_return co_await WriteError(exchange,
                                  RouteNotFound(exchange.method, PathOf(View(request.target()))));
  }
  if (!exchange.match.Allows(exchange.method)) {
    co_return co_await WriteError(
        exchange, MethodNotAllowed(exchange.method, PathOf(View(request.target()))));
  }
  if (exchange.method == "OPTIONS") co_return co_await WriteReply(exchange, 204, "", nullptr);
  const std::string body = std::move(parser.get().body());
  if (exchange.match.route == Route::kChat || exchange.match.route == Route::kCompletions) {
    co_return co_await AnswerCompletion(exchange, body);
  }
  co_return co_await AnswerSmall(exchange, body);
}

// What makes reading the body pointless; the connection closes after such an answer.
std::optional<ApiError> Session::CheckHeaders(const Parser& parser,
                                              const Exchange& exchange) const {
  const auto& request = parser.get();
  const bool is_probe = exchange.match.route == Route::kReady ||
                        exchange.match.route == Route::kLive ||
                        exchange.match.route == Route::kVersion;
  if (!front_.options.api_key.empty() && !is_probe && exchange.method != "OPTIONS") {
    const std::string_view header = View(request[http::field::authorization]);
    constexpr std::string_view kBearer = "Bearer ";
    if (!header.starts_with(kBearer) ||
        !SameKey(header.substr(kBearer.size()), front_.options.api_key)) {
      return InvalidApiKey();
    }
  }
  const std::string_view encoding = View(request[http::field::content_encoding]);
  if (!encoding.empty() && encoding != "identity") {
    return UnsupportedMediaType("Compressed request bodies are not supported.");
  }
  const std::string_view expect = View(request[http::field::expect]);
  if (!expect.empty() && !beast::iequals(View(expect), "100-continue")) {
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

// False with a message in `error`: an answer is due. False without: the client is gone.
asio::awaitable<bool> Session::ReadBody(Parser& parser, Exchange& exchange, ApiError& error) {
  if (parser.is_done()) co_return true;
  const bool waits =
      exchange.version == 11 && buffer_.size() == 0 && !parser.get()[http::field::expect].empty();
  if (waits && !co_await WriteRaw("HTTP/1.1 100 Continue\r\n\r\n")) {
    error.message.clear();
    co_return false;
  }
  StartDeadline(front_.options.body_timeout_ms);
  auto [read_error, bytes] = co_await http::async_read(stream_, buffer_, parser, kNoThrow);
  if (!read_error) co_return true;
  error.message.clear();
  if (read_error == http::error::body_limit) {
    error = BodyTooLarge(front_.options.max_body_bytes);
  } else if (read_error.category() == make_error_code(http::error::bad_method).category() &&
             read_error != http::error::partial_message &&
             read_error != http::error::end_of_stream) {
    error = BadRequest("", "The request's body is not valid HTTP.");
  }
  co_return false;
}

asio::awaitable<bool> Session::AnswerSmall(Exchange& exchange, std::string_view body) {
  ApiResult<std::string> answer = front_.small_answers.Answer(exchange.match, body);
  if (!answer.ok()) co_return co_await WriteError(exchange, answer.error());
  co_return co_await WriteReply(exchange, 200, *std::move(answer), nullptr);
}

// --- Completions ---------------------------------------------------------------------------------

asio::awaitable<bool> Session::AnswerCompletion(Exchange& exchange, std::string_view body) {
  const bool chat = exchange.match.route == Route::kChat;
  const ApiResult<CompletionRequest> request =
      ParseCompletionRequest(chat ? Endpoint::kChat : Endpoint::kCompletions, body);
  if (!request.ok()) co_return co_await WriteError(exchange, request.error());
  if (!request->model.empty() && request->model != front_.model.name()) {
    exchange.known_model = false;
    co_return co_await WriteError(exchange, ModelNotFound(request->model));
  }
  const int64_t before_ns = front_.clock.NowNs();
  ApiResult<RequestSpec> spec =
      BuildSpec(front_.model, front_.limits, *request, exchange.request_id);
  front_.metrics.tokenize_stage.Observe(static_cast<double>(front_.clock.NowNs() - before_ns) *
                                        1e-9);
  if (!spec.ok()) co_return co_await WriteError(exchange, spec.error());

  WriterOptions writing{.include_usage = request->include_usage, .prompt_ids = {}};
  if (request->return_token_ids) writing.prompt_ids = spec->prompt_ids;
  const CompletionWriter writer(
      request->endpoint, absl::StrFormat("%s-%016x", chat ? "chatcmpl" : "cmpl", RandomU64()),
      static_cast<int64_t>(front_.clock.WallSeconds()), front_.model.name(), std::move(writing));
  auto outbox = std::make_shared<Outbox>(front_.io);
  const ApiResult<uint64_t> submitted = front_.engine.Submit(*std::move(spec), outbox);
  if (!submitted.ok()) co_return co_await WriteError(exchange, submitted.error());

  stream_.expires_never();
  const auto ended = co_await (Deliver(exchange, writer, request->stream, outbox, *submitted) ||
                               WatchForDisconnect(*submitted));
  if (ended.index() == 0 && std::get<0>(ended)) co_return true;
  // Also when a write failed: then nobody reads any more. Nothing happens where it is over.
  const char* stage = front_.engine.Cancel(*submitted);
  if (ended.index() == 1) stage = std::get<1>(ended);
  const bool complete = ended.index() == 0 && stage[0] == '\0';
  if (!complete) {
    front_.metrics.CountDisconnect(stage[0] == '\0' ? "response" : stage);
    Count(exchange, kClientClosedRequest);
    observe::LogInfo(exchange.request_id, "the client left (stage %s)",
                     stage[0] == '\0' ? "response" : stage);
  }
  co_return false;
}

// Reads ahead, so that a client that leaves is noticed at once; what it pipelines is kept. Ends
// when the client has gone, with the stage in which the request was cancelled.
asio::awaitable<const char*> Session::WatchForDisconnect(uint64_t request) {
  for (;;) {
    if (buffer_.size() >= kMaxPipelinedBytes) break;  // a flood: not a client that we serve
    auto [error, bytes] =
        co_await stream_.socket().async_read_some(buffer_.prepare(kReadBytes), kNoThrow);
    if (error == asio::error::operation_aborted && stream_.socket().is_open()) co_return "";
    if (error) break;
    buffer_.commit(bytes);
  }
  const char* stage = front_.engine.Cancel(request);
  Close();
  co_return stage;
}

asio::awaitable<bool> Session::Deliver(Exchange& exchange, const CompletionWriter& writer,
                                       bool stream, std::shared_ptr<Outbox> outbox,
                                       uint64_t request) {
  if (stream) co_return co_await DeliverStream(exchange, writer, std::move(outbox), request);
  co_return co_await DeliverWhole(exchange, writer, std::move(outbox));
}

asio::awaitable<bool> Session::DeliverWhole(Exchange& exchange, const CompletionWriter& writer,
                                            std::shared_ptr<Outbox> outbox) {
  co_await outbox->WaitForEnd();
  const Outcome& outcome = *outbox->outcome();
  if (outcome.kind == Outcome::Kind::kCancelled) co_return false;
  if (outcome.error) co_return co_await WriteError(exchange, *outcome.error);
  co_return co_await WriteReply(
      exchange, 200, writer.Whole(outbox->ids(), outbox->text(), outcome.finish, outcome.usage),
      nullptr);
}

asio::awaitable<bool> Session::DeliverStream(Exchange& exchange, const CompletionWriter& writer,
                                             std::shared_ptr<Outbox> outbox, uint64_t request) {
  bool head_sent = false;
  bool begun = false;
  const auto pause = std::chrono::milliseconds(front_.options.keep_alive_ms);
  for (;;) {
    co_await outbox->Wait(pause);
    if (outbox->overflows()) co_return false;
    const std::optional<Outcome> outcome = outbox->outcome();
    if (outcome && outcome->kind == Outcome::Kind::kCancelled) co_return false;
    if (outcome && outcome->error && !head_sent && !outbox->has_token()) {
      co_return co_await WriteError(exchange, *outcome->error);
    }
    std::string part;
    if (!outbox->has_news()) {
      part = CompletionWriter::KeepAlive();
    } else {
      if (!begun && outbox->has_token()) {
        part = writer.Begin();
        begun = true;
      }
      part += writer.Tokens(outbox->ids(), outbox->text());
      outbox->Clear();
    }
    if (outcome) {
      part += outcome->error ? CompletionWriter::Error(*outcome->error)
                             : writer.End(outcome->finish, outcome->usage);
    }
    if (!head_sent) {
      head_sent = true;
      if (!co_await WriteStreamHead(exchange)) co_return false;
    }
    if (!co_await WriteStreamPart(exchange, std::move(part), outcome.has_value())) co_return false;
    if (!outcome) continue;
    if (outcome->error) front_.metrics.CountError(outcome->error->reason);
    Count(exchange, outcome->error ? outcome->error->status : 200);
    co_return exchange.keep_alive&& exchange.version == 11;
  }
}

// --- Writing -------------------------------------------------------------------------------------

asio::awaitable<bool> Session::WriteError(Exchange& exchange, ApiError error) {
  front_.metrics.CountError(error.reason);
  std::string body = ErrorBody(error);
  co_return co_await WriteReply(exchange, error.status, std::move(body), &error);
}

// Whether the connection may be used again.
asio::awaitable<bool> Session::WriteReply(Exchange& exchange, int status, std::string body,
                                          const ApiError* error) {
  Count(exchange, status);
  http::response<http::string_body> response;
  response.version(exchange.version);
  response.result(static_cast<unsigned>(status));
  response.set("x-request-id", exchange.request_id);
  response.set("openai-processing-ms",
               std::to_string((front_.clock.NowNs() - exchange.started_ns) / 1'000'000));
  if (status != 204) response.set(http::field::content_type, "application/json");
  if (status == 204 || status == 405) response.set(http::field::allow, exchange.match.methods);
  if (status == 401) response.set(http::field::www_authenticate, "Bearer");
  if (error != nullptr && error->retry_after_seconds > 0) {
    response.set(http::field::retry_after, std::to_string(error->retry_after_seconds));
  }
  response.keep_alive(exchange.keep_alive);
  response.body() = std::move(body);
  if (status != 204) response.prepare_payload();
  StartDeadline(front_.options.write_timeout_ms);
  if (exchange.method == "HEAD") {
    http::response<http::empty_body> head(response.base());
    http::response_serializer<http::empty_body> serializer(head);
    auto [failed, bytes] = co_await http::async_write_header(stream_, serializer, kNoThrow);
    co_return !failed && exchange.keep_alive;
  }
  auto [failed, bytes] = co_await http::async_write(stream_, response, kNoThrow);
  co_return !failed && exchange.keep_alive;
}

asio::awaitable<bool> Session::WriteStreamHead(const Exchange& exchange) {
  std::string head = absl::StrFormat(
      "HTTP/1.%d 200 OK\r\n"
      "Content-Type: text/event-stream; charset=utf-8\r\n"
      "Cache-Control: no-cache\r\n"
      "X-Accel-Buffering: no\r\n"
      "x-request-id: %s\r\n",
      exchange.version - 10, exchange.request_id);
  if (exchange.version == 11) head += "Transfer-Encoding: chunked\r\n";
  if (!exchange.keep_alive || exchange.version == 10) head += "Connection: close\r\n";
  co_return co_await WriteRaw(head + "\r\n");
}

asio::awaitable<bool> Session::WriteStreamPart(const Exchange& exchange, std::string data,
                                               bool last) {
  if (exchange.version == 10) co_return co_await WriteRaw(std::move(data));
  std::string bytes;
  if (!data.empty()) bytes = absl::StrFormat("%x\r\n%s\r\n", data.size(), data);
  if (last) bytes += "0\r\n\r\n";
  co_return bytes.empty() || co_await WriteRaw(std::move(bytes));
}

asio::awaitable<bool> Session::WriteRaw(std::string bytes) {
  StartDeadline(front_.options.write_timeout_ms);
  auto [error, written] = co_await asio::async_write(stream_, asio::buffer(bytes), kNoThrow);
  stream_.expires_never();
  co_return !error;
}

// Says that nothing more comes, then reads on for a moment: closing with unread bytes would reset
// the connection and could destroy the answer on its way.
asio::awaitable<void> Session::Linger() {
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

}  // namespace

// --- The front -----------------------------------------------------------------------------------

absl::Status HttpFront::State::Listen() {
  ASSIGN_OR_RETURN(observe::HostPort wanted, observe::ParseHostPort(options.listen));
  error_code error;
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

asio::awaitable<void> HttpFront::State::Accept(std::shared_ptr<State> state) {
  asio::steady_timer pause(state->io);
  while (!state->stopped) {
    auto [error, socket] = co_await state->acceptor.async_accept(kNoThrow);
    if (state->stopped) break;
    if (error) {  // out of descriptors, most likely: let some connections end
      pause.expires_after(kAcceptPause);
      co_await pause.async_wait(kNoThrow);
    } else if (state->sessions.size() < static_cast<size_t>(state->options.max_connections)) {
      asio::co_spawn(state->io, Session::Serve(std::make_unique<Session>(state, std::move(socket))),
                     asio::detached);
    }
  }
}

HttpFront::HttpFront(std::shared_ptr<State> state) : state_(std::move(state)) {}
HttpFront::~HttpFront() { Stop(); }

absl::StatusOr<std::unique_ptr<HttpFront>> HttpFront::Start(
    asio::io_context& io, const HttpOptions& options, const ServedModel* model,
    const SpecLimits& limits, Engine* engine, const Clock* clock, RouterMetrics* metrics) {
  auto state = std::make_shared<State>(io, options, model, limits, engine, clock, metrics);
  RETURN_IF_ERROR(state->Listen());
  asio::co_spawn(io, State::Accept(state), asio::detached);
  return std::unique_ptr<HttpFront>(new HttpFront(std::move(state)));
}

std::string HttpFront::address() const { return state_->address; }
int HttpFront::connections() const { return static_cast<int>(state_->sessions.size()); }
void HttpFront::BeginDrain() { state_->draining = true; }

void HttpFront::Stop() {
  if (state_->stopped) return;
  state_->stopped = true;
  error_code ignored;
  state_->acceptor.close(ignored);
  for (Session* session : state_->sessions) session->Close();
}

}  // namespace anchorage::router
