#include "router/completion_service.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/ids.h"
#include "observe/logging.h"
#include "router/request_parser.h"

namespace anchorage::router {
namespace {

namespace asio = boost::asio;
using asio::experimental::awaitable_operators::operator||;

constexpr int kClientClosedRequest = 499;

// Counts an answer as long as it lives, also when its coroutine is destroyed half-way.
class Answering {
 public:
  explicit Answering(int* count) : count_(*count) { ++count_; }
  ~Answering() { --count_; }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

 private:
  int& count_;
};

}  // namespace

asio::awaitable<bool> CompletionService::Answer(Endpoint endpoint, std::string body) {
  const ApiResult<CompletionRequest> request = ParseCompletionRequest(endpoint, body);
  if (!request.ok()) co_return co_await connection_.WriteError(exchange_, request.error());
  if (!request->model.empty() && request->model != context_.model.name()) {
    exchange_.known_model = false;
    co_return co_await connection_.WriteError(exchange_, ModelNotFound(request->model));
  }
  const int64_t before_ns = context_.clock.NowNs();
  ApiResult<RequestSpec> spec =
      BuildSpec(context_.model, context_.limits, *request, exchange_.log_id);
  context_.metrics.tokenize_stage.Observe(static_cast<double>(context_.clock.NowNs() - before_ns) *
                                          1e-9);
  if (!spec.ok()) co_return co_await connection_.WriteError(exchange_, spec.error());
  CompletionWriter writer = MakeWriter(*request, *spec);
  co_return co_await Serve(*std::move(spec), std::move(writer), request->stream);
}

CompletionWriter CompletionService::MakeWriter(const CompletionRequest& request,
                                               const RequestSpec& spec) const {
  const char* prefix = request.endpoint == Endpoint::kChat ? "chatcmpl" : "cmpl";
  WriterOptions options{.include_usage = request.include_usage, .prompt_ids = {}};
  if (request.return_token_ids) options.prompt_ids = spec.prompt_ids;
  return CompletionWriter(request.endpoint, absl::StrFormat("%s-%016x", prefix, RandomU64()),
                          static_cast<int64_t>(context_.clock.WallSeconds()), context_.model.name(),
                          std::move(options));
}

asio::awaitable<bool> CompletionService::Serve(RequestSpec spec, CompletionWriter writer,
                                               bool stream) {
  auto outbox = std::make_shared<Outbox>(context_.io);
  const ApiResult<uint64_t> submitted = context_.engine.Submit(std::move(spec), outbox);
  if (!submitted.ok()) co_return co_await connection_.WriteError(exchange_, submitted.error());
  const Answering answering(&context_.answering);
  connection_.StopDeadline();
  const auto ended = co_await (Deliver(writer, stream, outbox) || CancelWhenGone(*submitted));
  if (ended.index() == 0 && std::get<0>(ended)) co_return true;
  // Also when a write failed: then nobody reads any more. Nothing happens where it is over.
  const char* stage = context_.engine.Cancel(*submitted);
  if (ended.index() == 1) stage = std::get<1>(ended);
  const bool complete = ended.index() == 0 && exchange_.counted;
  if (!complete) {
    if (stage[0] == '\0') stage = "response";
    context_.metrics.CountDisconnect(stage);
    connection_.Count(exchange_, kClientClosedRequest);
    observe::LogInfo(exchange_.log_id, "the client left (stage %s)", stage);
  }
  co_return false;
}

asio::awaitable<const char*> CompletionService::CancelWhenGone(uint64_t request) {
  if (!co_await connection_.WaitUntilGone()) co_return "";
  const char* stage = context_.engine.Cancel(request);
  connection_.Close();
  co_return stage;
}

asio::awaitable<bool> CompletionService::Deliver(const CompletionWriter& writer, bool stream,
                                                 std::shared_ptr<Outbox> outbox) {
  if (stream) co_return co_await DeliverStream(writer, std::move(outbox));
  co_return co_await DeliverWhole(writer, std::move(outbox));
}

asio::awaitable<bool> CompletionService::DeliverWhole(const CompletionWriter& writer,
                                                      std::shared_ptr<Outbox> outbox) {
  co_await outbox->WaitForEnd();
  const Outcome& outcome = *outbox->outcome();
  if (outcome.kind == Outcome::Kind::kCancelled) co_return false;
  if (outcome.error) co_return co_await connection_.WriteError(exchange_, *outcome.error);
  co_return co_await connection_.WriteReply(
      exchange_, 200, writer.Whole(outbox->ids(), outbox->text(), outcome.finish, outcome.usage));
}

asio::awaitable<bool> CompletionService::DeliverStream(const CompletionWriter& writer,
                                                       std::shared_ptr<Outbox> outbox) {
  bool head_sent = false;
  bool begun = false;
  const auto pause = std::chrono::milliseconds(context_.options.keep_alive_ms);
  for (;;) {
    co_await outbox->Wait(pause);
    if (outbox->overflows()) co_return false;
    const std::optional<Outcome> outcome = outbox->outcome();
    if (outcome && outcome->kind == Outcome::Kind::kCancelled) co_return false;
    if (outcome && outcome->error && !head_sent && !outbox->has_token()) {
      co_return co_await connection_.WriteError(exchange_, *outcome->error);
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
      if (!co_await connection_.WriteStreamHead(exchange_)) co_return false;
    }
    if (!co_await connection_.WriteStreamPart(exchange_, std::move(part), outcome.has_value())) {
      co_return false;
    }
    if (!outcome) continue;
    if (outcome->error) context_.metrics.CountError(outcome->error->reason);
    connection_.Count(exchange_, outcome->error ? outcome->error->status : 200);
    const bool reusable = exchange_.version == 11 && exchange_.keep_alive && !context_.draining;
    co_return reusable;
  }
}

}  // namespace anchorage::router
