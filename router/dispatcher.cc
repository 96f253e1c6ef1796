#include "router/dispatcher.h"

#include <algorithm>

#include "common/status.h"
#include "observe/logging.h"

namespace anchorage::router {
namespace {

constexpr double kSecondsPerNs = 1e-9;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr uint32_t kFirstGeneration = 1;
constexpr int64_t kRenewalsPerLease = 3;
constexpr int64_t kStuckNs = 30'000'000'000;

AttemptId IdOf(const proto::Attempt& attempt) { return {attempt.request(), attempt.generation()}; }

double SecondsBetween(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) * kSecondsPerNs;
}

std::optional<FinishReason> ReasonOf(proto::Finish finish) {
  switch (finish) {
    case proto::FINISH_STOP:
      return FinishReason::kStop;
    case proto::FINISH_LENGTH:
      return FinishReason::kLength;
    default:
      return std::nullopt;
  }
}

// What a client is told when a worker gave its attempt up.
ApiError ErrorOf(const proto::Ended& ended) {
  const std::string stage = ended.stage().empty() ? "decode" : ended.stage();
  const auto code = static_cast<absl::StatusCode>(ended.status());
  // Only before work began can it be the client's fault; later it means a message between nodes.
  if (code == absl::StatusCode::kInvalidArgument && stage == "queue") {
    return BadRequest("", ended.message());
  }
  switch (code) {
    case absl::StatusCode::kDeadlineExceeded:
      return RequestTimeout(stage);
    case absl::StatusCode::kResourceExhausted:
      return NoWorkers("No memory or compute is free for this request. Please try again later.");
    default:
      return StageFailed(stage, "The request failed in the " + stage + " stage. Please try again.");
  }
}

void RemoveFrom(std::deque<uint64_t>& queue, uint64_t request) {
  const auto found = std::find(queue.begin(), queue.end(), request);
  if (found != queue.end()) queue.erase(found);
}

}  // namespace

// Tells the dispatcher which role a channel was dialled for.
class Dispatcher::Handler : public transport::ControlHandler {
 public:
  Handler(Dispatcher* dispatcher, proto::Role role) : dispatcher_(*dispatcher), role_(role) {}
  absl::Status OnHello(const proto::Hello& hello) override {
    return dispatcher_.OnHello(role_, hello);
  }
  void OnUp(transport::ControlChannelPtr channel) override {
    dispatcher_.OnUp(role_, std::move(channel));
  }
  void OnMessage(transport::ControlChannelPtr channel, proto::Envelope message) override {
    dispatcher_.OnMessage(channel.get(), message);
  }
  void OnDown(transport::ControlChannelPtr channel, absl::Status reason) override {
    dispatcher_.OnDown(channel.get(), reason);
  }

 private:
  Dispatcher& dispatcher_;
  const proto::Role role_;
};

Dispatcher::Dispatcher(const DispatcherOptions& options, proto::Identity identity,
                       const text::Tokenizer* tokenizer, const Clock* clock, RouterMetrics* metrics)
    : options_(options),
      tokenizer_(tokenizer),
      clock_(*clock),
      metrics_(*metrics),
      prefill_handler_(std::make_unique<Handler>(this, proto::ROLE_PREFILL)),
      decode_handler_(std::make_unique<Handler>(this, proto::ROLE_DECODE)),
      workers_(std::move(identity)),
      next_request_(options.boot_id),
      last_tick_ns_(clock->NowNs()) {
  UpdateReadiness();
  UpdateGauges();
}

Dispatcher::~Dispatcher() = default;

transport::ControlHandler& Dispatcher::prefill_handler() { return *prefill_handler_; }
transport::ControlHandler& Dispatcher::decode_handler() { return *decode_handler_; }

// --- Requests in ---------------------------------------------------------------------------------

std::optional<ApiError> Dispatcher::WhyNot(const RequestSpec& spec) {
  if (draining_) {
    metrics_.CountRejection("draining");
    return Draining();
  }
  if (const absl::Status status = workers_.CanServe(); !status.ok()) {
    return NoWorkers("The service cannot take requests now: " + std::string(status.message()) +
                     ". Please try again later.");
  }
  int64_t limit = 0;
  for (const Worker* worker : workers_.Ready(proto::ROLE_DECODE)) {
    limit = std::max(limit, ledger_.limit(worker->id));
  }
  if (spec.kv_bytes > limit) {
    metrics_.CountRejection("headroom");
    return NeverFits(spec.kv_bytes, limit);
  }
  const int64_t not_begun = std::count_if(requests_.begin(), requests_.end(), [](const auto& r) {
    return r.second->state() < State::kPrefilling;
  });
  if (not_begun >= options_.queue_size) {
    metrics_.CountRejection("queue_full");
    return QueueFull();
  }
  return std::nullopt;
}

ApiResult<uint64_t> Dispatcher::Submit(RequestSpec spec, std::shared_ptr<ResponseSink> sink) {
  if (auto error = WhyNot(spec)) {
    metrics_.CountDecision("rejected", ErrorReasonName(error->reason));
    return *std::move(error);
  }
  const uint64_t id = next_request_++;
  requests_[id] = std::make_unique<Request>(AttemptId{id, kFirstGeneration}, std::move(spec),
                                            tokenizer_, std::move(sink), clock_.NowNs());
  waiting_.push_back(id);
  Pump();
  return id;
}

const char* Dispatcher::Cancel(uint64_t request) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return "";
  const char* stage = StageName(found->second->state());
  Outcome outcome;
  outcome.kind = Outcome::Kind::kCancelled;
  End(*found->second, std::move(outcome));
  return stage;
}

void Dispatcher::Tick() {
  const int64_t now = clock_.NowNs();
  last_tick_ns_ = now;
  std::vector<Request*> late;
  for (const auto& [id, request] : requests_) {
    const int64_t age_ms = (now - request->arrived_ns()) / kNsPerMs;
    const bool queued = request->state() < State::kPrefilling;
    if (age_ms >= options_.request_timeout_ms || (queued && age_ms >= options_.queue_timeout_ms)) {
      late.push_back(request.get());
    }
  }
  for (Request* request : late) {
    const int64_t age_ms = (now - request->arrived_ns()) / kNsPerMs;
    Fail(*request, age_ms >= options_.request_timeout_ms
                       ? RequestTimeout(StageName(request->state()))
                       : QueueTimeout());
  }
  for (auto& [attempt, closing] : closing_) {
    if (now - closing.last_cancel_ns < options_.cancel_repeat_ms * kNsPerMs) continue;
    closing.last_cancel_ns = now;
    SendCancel(closing.prefill, attempt, closing.request_id);
    SendCancel(closing.decode, attempt, closing.request_id);
  }
  RenewLeases();
  Pump();
  UpdateGauges();
}

void Dispatcher::BeginDrain() {
  draining_ = true;
  UpdateReadiness();
}

void Dispatcher::FailAll(const ApiError& error) {
  while (!requests_.empty()) Fail(*requests_.begin()->second, error);
}

absl::Status Dispatcher::Ready() const {
  MutexLock lock(mutex_);
  return ready_;
}

absl::Status Dispatcher::Live() const {
  const int64_t silent_ns = clock_.NowNs() - last_tick_ns_;
  if (silent_ns < kStuckNs) return absl::OkStatus();
  return Unavailable("the io thread has been stuck for %d s", silent_ns / 1'000'000'000);
}

// --- Towards the workers -------------------------------------------------------------------------

void Dispatcher::Pump() {
  while (!reserving_.empty() && TryReserve(*requests_.at(reserving_.front()))) {
    reserving_.pop_front();
  }
  while (!waiting_.empty() && TryEnqueue(*requests_.at(waiting_.front()))) waiting_.pop_front();
}

std::vector<PrefillCandidate> Dispatcher::PrefillCandidates() {
  std::map<WorkerId, int64_t> own_tokens;
  for (const auto& [id, other] : requests_) {
    if (other->state() > State::kWaiting && other->state() < State::kDecoding) {
      own_tokens[other->prefill] += static_cast<int64_t>(other->spec().prompt_ids.size());
    }
  }
  std::vector<PrefillCandidate> candidates;
  for (const Worker* worker : workers_.Ready(proto::ROLE_PREFILL)) {
    // The node's word counts other routers' requests too, but may be a moment old.
    candidates.push_back({worker->id, worker->model(),
                          std::max(worker->state.queued_tokens(), own_tokens[worker->id])});
  }
  return candidates;
}

bool Dispatcher::Place(Request& request) {
  const std::vector<PrefillCandidate> prefills = PrefillCandidates();
  if (request.spec().prefill_only()) {
    const auto prefill = ChoosePrefill(prefills);
    if (prefill) request.prefill = *prefill;
    return prefill.has_value();
  }
  std::vector<DecodeCandidate> decodes;
  for (const Worker* worker : workers_.Ready(proto::ROLE_DECODE)) {
    decodes.push_back({worker->id, worker->model(), ledger_.unpromised(worker->id)});
  }
  const auto pair = ChoosePair(prefills, decodes, request.spec().kv_bytes);
  if (!pair) return false;
  ledger_.Promise(pair->decode, request.attempt(), request.spec().kv_bytes);
  request.prefill = pair->prefill;
  request.decode = pair->decode;
  return true;
}

bool Dispatcher::TryEnqueue(Request& request) {
  if (!Place(request)) return false;
  request.Advance(State::kQueued);
  metrics_.CountDecision("routed", "headroom");
  proto::Envelope message;
  proto::Enqueue& enqueue = *message.mutable_enqueue();
  *enqueue.mutable_attempt() = ToProto(request);
  enqueue.mutable_prompt_ids()->Add(request.spec().prompt_ids.begin(),
                                    request.spec().prompt_ids.end());
  enqueue.set_max_new(request.spec().max_new);
  *enqueue.mutable_sampling() = request.spec().sampling;
  enqueue.set_deadline_ms(std::max<int64_t>(
      1, options_.request_timeout_ms - (clock_.NowNs() - request.arrived_ns()) / kNsPerMs));
  workers_.Find(request.prefill)->channel->Send(std::move(message));
  return true;
}

bool Dispatcher::TryReserve(Request& request) {
  const RequestSpec& spec = request.spec();
  const Worker* const prefill = workers_.Find(request.prefill);
  if (prefill == nullptr) return false;  // lost a moment ago: the request is about to fail
  Worker* worker = workers_.Find(request.decode);
  if (worker == nullptr || !worker->ready() || ledger_.headroom(worker->id) < spec.kv_bytes) {
    std::vector<DecodeCandidate> decodes;
    for (const Worker* other : workers_.Ready(proto::ROLE_DECODE)) {
      decodes.push_back({other->id, other->model(), ledger_.headroom(other->id)});
    }
    const auto decode = ChooseDecode(decodes, prefill->model(), spec.kv_bytes);
    if (!decode) return false;
    worker = workers_.Find(*decode);
  }
  request.decode = worker->id;
  ledger_.Reserve(worker->id, request.attempt(), spec.kv_bytes);
  proto::Envelope message;
  proto::Reserve& reserve = *message.mutable_reserve();
  *reserve.mutable_attempt() = ToProto(request);
  reserve.set_prompt_tokens(static_cast<int64_t>(spec.prompt_ids.size()));
  reserve.set_max_new(spec.max_new);
  *reserve.mutable_sampling() = spec.sampling;
  *reserve.mutable_identity() = workers_.IdentityOf(*prefill);
  if (spec.sampling.repetition_penalty() != 1) {
    reserve.mutable_prompt_ids()->Add(spec.prompt_ids.begin(), spec.prompt_ids.end());
  }
  worker->channel->Send(std::move(message));
  return true;
}

void Dispatcher::StartPrefill(Request& request, const proto::Granted* granted) {
  const int64_t now = clock_.NowNs();
  request.Advance(State::kPrefilling);
  request.prefill_started_ns = now;
  metrics_.queue_stage.Observe(SecondsBetween(request.arrived_ns(), now));
  metrics_.admission_wait.Observe(SecondsBetween(request.arrived_ns(), now));
  proto::Envelope message;
  proto::StartPrefill& start = *message.mutable_start();
  *start.mutable_attempt() = ToProto(request);
  if (granted != nullptr) {
    start.set_nonce(granted->nonce());
    start.set_data_address(granted->data_address());
    start.set_code_packing(granted->code_packing());
  }
  if (Worker* worker = workers_.Find(request.prefill)) worker->channel->Send(std::move(message));
}

void Dispatcher::RenewLeases() {
  const int64_t now = clock_.NowNs();
  for (const auto& [id, request] : requests_) {
    if (request->state() != State::kPrefilling || request->lease_ms == 0) continue;
    if (now - request->renewed_ns < request->lease_ms * kNsPerMs / kRenewalsPerLease) continue;
    Worker* worker = workers_.Find(request->decode);
    if (worker == nullptr) continue;
    request->renewed_ns = now;
    proto::Envelope message;
    *message.mutable_renew()->mutable_attempt() = ToProto(*request);
    worker->channel->Send(std::move(message));
  }
}

void Dispatcher::SendCancel(WorkerId id, AttemptId attempt, const std::string& request_id) {
  Worker* worker = workers_.Find(id);
  if (worker == nullptr) return;
  proto::Envelope message;
  proto::Attempt& target = *message.mutable_cancel()->mutable_attempt();
  target.set_request(attempt.request);
  target.set_generation(attempt.generation);
  target.set_request_id(request_id);
  worker->channel->Send(std::move(message));
}

proto::Attempt Dispatcher::ToProto(const Request& request) const {
  proto::Attempt attempt;
  attempt.set_request(request.attempt().request);
  attempt.set_generation(request.attempt().generation);
  attempt.set_request_id(request.spec().request_id);
  return attempt;
}

// --- From the workers ----------------------------------------------------------------------------

absl::Status Dispatcher::OnHello(proto::Role role, const proto::Hello& hello) {
  return workers_.Judge(role, hello);
}

void Dispatcher::OnUp(proto::Role role, transport::ControlChannelPtr channel) {
  const std::string address = channel->peer_address();
  const Worker& worker = workers_.Add(role, std::move(channel));
  if (role == proto::ROLE_DECODE) ledger_.AddNode(worker.id);
  observe::LogInfo("", "connected to the %s node at %s",
                   role == proto::ROLE_DECODE ? "decode" : "prefill", address);
}

void Dispatcher::OnDown(const transport::ControlChannel* channel, const absl::Status& reason) {
  const Worker* worker = workers_.FindByChannel(channel);
  if (worker == nullptr) return;
  const WorkerId id = worker->id;
  observe::LogWarning("", "lost the node at %s: %s", channel->peer_address(),
                      std::string(reason.message()));
  const bool is_prefill = worker->role == proto::ROLE_PREFILL;
  workers_.Remove(id);
  ledger_.RemoveNode(id);
  std::vector<Request*> orphans;
  for (const auto& [request_id, request] : requests_) {
    // Prefill is no longer needed once its last layer has landed, which the first token shows. A
    // decode node is not needed before memory was asked of it.
    const bool needs_prefill =
        request->state() > State::kWaiting && request->state() < State::kDecoding;
    if (is_prefill ? (request->prefill == id && needs_prefill)
                   : (request->decode == id && request->state() >= State::kReserving &&
                      !WaitsForMemory(*request))) {
      orphans.push_back(request.get());
    } else if (request->prefill == id) {
      request->prefill = 0;
    }
  }
  for (Request* request : orphans) {
    const std::string stage = !is_prefill && request->state() == State::kPrefilling
                                  ? "transfer"
                                  : StageName(request->state());
    Fail(*request, StageFailed(stage, absl::StrFormat("The %s node that served this request was "
                                                      "lost. Please try again.",
                                                      is_prefill ? "prefill" : "decode")));
  }
  for (auto closing = closing_.begin(); closing != closing_.end();) {
    if (closing->second.prefill == id) closing->second.prefill = 0;
    if (closing->second.decode == id) closing->second.decode = 0;
    const bool over = closing->second.prefill == 0 && closing->second.decode == 0;
    closing = over ? closing_.erase(closing) : std::next(closing);
  }
  Pump();
  UpdateReadiness();
}

void Dispatcher::OnMessage(const transport::ControlChannel* channel,
                           const proto::Envelope& message) {
  Worker* worker = workers_.FindByChannel(channel);
  if (worker == nullptr) return;
  switch (message.body_case()) {
    case proto::Envelope::kState:
      OnState(*worker, message.state());
      break;
    case proto::Envelope::kTaken:
      OnTaken(*worker, message.taken().attempt());
      break;
    case proto::Envelope::kGranted:
      OnGranted(*worker, message.granted());
      break;
    case proto::Envelope::kRefused:
      OnRefused(*worker, message.refused());
      break;
    case proto::Envelope::kPrefillDone:
      OnPrefillDone(*worker, message.prefill_done());
      break;
    case proto::Envelope::kTokens:
      OnTokens(*worker, message.tokens());
      break;
    case proto::Envelope::kEnded:
      OnEnded(*worker, message.ended());
      break;
    default:
      observe::LogWarning("", "%s sent a message that a router does not take (%d)",
                          channel->peer_address(), static_cast<int>(message.body_case()));
      break;
  }
  Pump();
}

Request* Dispatcher::Find(const proto::Attempt& attempt) {
  const auto found = requests_.find(attempt.request());
  if (found == requests_.end() || found->second->attempt() != IdOf(attempt)) return nullptr;
  return found->second.get();
}

void Dispatcher::OnState(Worker& worker, const proto::NodeState& state) {
  worker.state = state;
  worker.spoke = true;
  UpdateReadiness();
  if (worker.role != proto::ROLE_DECODE) return;
  const int64_t headroom = state.memory_limit_bytes() - state.memory_used_bytes() -
                           state.memory_reserved_bytes() - state.memory_quarantined_bytes();
  ledger_.Correct(worker.id, headroom, state.memory_limit_bytes());
}

void Dispatcher::OnTaken(Worker& worker, const proto::Attempt& attempt) {
  Request* request = Find(attempt);
  if (request == nullptr || request->prefill != worker.id || request->state() != State::kQueued) {
    SendCancel(worker.id, IdOf(attempt), attempt.request_id());
    return;
  }
  if (request->spec().prefill_only()) {
    StartPrefill(*request, nullptr);
    return;
  }
  request->Advance(State::kReserving);
  reserving_.push_back(request->attempt().request);
}

void Dispatcher::OnGranted(Worker& worker, const proto::Granted& granted) {
  Request* request = Find(granted.attempt());
  if (request == nullptr || request->decode != worker.id || request->state() != State::kReserving) {
    SendCancel(worker.id, IdOf(granted.attempt()), granted.attempt().request_id());
    return;
  }
  if (granted.bytes() != request->spec().kv_bytes) {
    observe::LogError(request->spec().request_id, "planned %d bytes, %s granted %d",
                      request->spec().kv_bytes, worker.channel->peer_address(), granted.bytes());
  }
  ledger_.Grant(worker.id, request->attempt(), granted.bytes());
  request->lease_ms = granted.lease_ms();
  request->renewed_ns = clock_.NowNs();
  StartPrefill(*request, &granted);
}

void Dispatcher::OnRefused(Worker& worker, const proto::Refused& refused) {
  const AttemptId attempt = IdOf(refused.attempt());
  ledger_.Refuse(worker.id, attempt, refused.headroom_bytes());
  ForgetWorker(attempt, proto::ROLE_DECODE);
  Request* request = Find(refused.attempt());
  if (request == nullptr || request->decode != worker.id || request->state() != State::kReserving) {
    return;
  }
  request->decode = 0;
  observe::LogDebug(request->spec().request_id, "%s refused %d bytes: %s",
                    worker.channel->peer_address(), refused.needed_bytes(), refused.reason());
  if (refused.never() && refused.needed_bytes() > ledger_.limit(worker.id)) {
    metrics_.CountRejection("headroom");
    return Fail(*request, NeverFits(refused.needed_bytes(), ledger_.limit(worker.id)));
  }
  if (refused.never()) {
    observe::LogWarning(request->spec().request_id, "%s will never take it: %s",
                        worker.channel->peer_address(), refused.reason());
    return Fail(*request, StageFailed("decode", "A decode node refused the request."));
  }
  reserving_.push_front(attempt.request);  // it keeps its place
}

void Dispatcher::OnPrefillDone(Worker& worker, const proto::PrefillDone& done) {
  const AttemptId attempt = IdOf(done.attempt());
  ForgetWorker(attempt, proto::ROLE_PREFILL);
  Request* request = Find(done.attempt());
  if (request == nullptr || request->prefill != worker.id) return;
  request->prefill = 0;
  // In kDecoding the decode node's first token was faster than this word.
  if (request->state() == State::kPrefilling) request->Advance(State::kDecoding);
  if (request->state() != State::kDecoding) {
    Fail(*request, StageFailed("prefill", "A worker answered out of turn."));
    return;
  }
  metrics_.prefill_stage.Observe(SecondsBetween(request->prefill_started_ns, clock_.NowNs()));
  const auto finish = ReasonOf(done.finish());
  if (finish) {
    const int32_t first_token = done.first_token();
    Accept(*request, 0, {&first_token, 1}, finish);
  } else if (request->spec().prefill_only()) {
    Fail(*request, StageFailed("prefill", "Prefill did not finish a request of one token."));
  }
}

void Dispatcher::OnTokens(Worker& worker, const proto::Tokens& tokens) {
  Request* request = Find(tokens.attempt());
  const auto finish = ReasonOf(tokens.finish());
  const AttemptId attempt = IdOf(tokens.attempt());
  if (finish) {
    ledger_.Release(worker.id, attempt);
    ForgetWorker(attempt, proto::ROLE_DECODE);
  }
  const bool in_turn =
      request != nullptr && request->decode == worker.id && request->state() >= State::kPrefilling;
  if (!in_turn) {
    if (!finish) SendCancel(worker.id, attempt, tokens.attempt().request_id());
    return;
  }
  if (finish) request->decode = 0;
  if (request->state() == State::kPrefilling) request->Advance(State::kDecoding);
  Accept(*request, tokens.first_index(),
         {tokens.ids().data(), static_cast<size_t>(tokens.ids().size())}, finish);
}

void Dispatcher::OnEnded(Worker& worker, const proto::Ended& ended) {
  const AttemptId attempt = IdOf(ended.attempt());
  const bool at_prefill = worker.role == proto::ROLE_PREFILL;
  if (!at_prefill) ledger_.Release(worker.id, attempt);
  ForgetWorker(attempt, worker.role);
  Request* request = Find(ended.attempt());
  if (request == nullptr) return;
  WorkerId& held_by = at_prefill ? request->prefill : request->decode;
  if (held_by != worker.id) return;  // it had already said what matters
  held_by = 0;
  RemoveFrom(reserving_, attempt.request);
  observe::LogWarning(request->spec().request_id, "%s ended it in stage %s: %s (%d)",
                      worker.channel->peer_address(), ended.stage(), ended.message(),
                      ended.status());
  Fail(*request, ErrorOf(ended));
}

// --- Ends ----------------------------------------------------------------------------------------

void Dispatcher::Accept(Request& request, int64_t first_index, std::span<const int32_t> ids,
                        std::optional<FinishReason> finish) {
  const int64_t now = clock_.NowNs();
  const bool had_token = request.first_token_ns().has_value();
  const int64_t last_token_ns = request.last_token_ns();
  Request::Step step = request.AcceptTokens(first_index, ids, finish, now);
  if (step.num_new > 0) {
    if (!had_token) {
      metrics_.time_to_first_token.Observe(SecondsBetween(request.arrived_ns(), now));
    } else {
      const double gap = SecondsBetween(last_token_ns, now) / static_cast<double>(step.num_new);
      for (int64_t i = 0; i < step.num_new; ++i) metrics_.inter_token_latency.Observe(gap);
    }
  }
  if (step.error) {
    Fail(request, *std::move(step.error));
  } else if (step.finished) {
    Finish(request, step.finish);
  }
}

void Dispatcher::Finish(Request& request, FinishReason reason) {
  Outcome outcome;
  outcome.finish = reason;
  End(request, std::move(outcome));
}

void Dispatcher::Fail(Request& request, ApiError error) {
  Outcome outcome;
  outcome.kind = Outcome::Kind::kFailed;
  outcome.error = std::move(error);
  End(request, std::move(outcome));
}

void Dispatcher::End(Request& request, Outcome outcome) {
  const AttemptId attempt = request.attempt();
  const std::string request_id = request.spec().request_id;
  const State state = request.state();
  RemoveFrom(waiting_, attempt.request);
  const bool reserve_unsent = WaitsForMemory(request);
  RemoveFrom(reserving_, attempt.request);
  if (state < State::kReserving || reserve_unsent) {
    ledger_.Release(request.decode, attempt);  // a promise, of which the node knows nothing
    request.decode = 0;
  }
  Closing closing{request.prefill, request.decode, request_id, clock_.NowNs()};
  SendCancel(closing.prefill, attempt, request_id);
  SendCancel(closing.decode, attempt, request_id);
  if (workers_.Find(closing.prefill) == nullptr) closing.prefill = 0;
  if (workers_.Find(closing.decode) == nullptr) closing.decode = 0;
  if (closing.prefill != 0 || closing.decode != 0) closing_[attempt] = std::move(closing);
  // The sink may call back; by then the request is no longer found.
  const std::unique_ptr<Request> owned = std::move(requests_.at(attempt.request));
  requests_.erase(attempt.request);
  Observe(*owned, outcome);
  owned->End(std::move(outcome));
}

void Dispatcher::Observe(const Request& request, const Outcome& outcome) {
  const int64_t now = clock_.NowNs();
  const Usage usage = request.usage();
  const double seconds = SecondsBetween(request.arrived_ns(), now);
  const char* word = "finished";
  if (outcome.kind == Outcome::Kind::kFailed) word = "failed";
  if (outcome.kind == Outcome::Kind::kCancelled) word = "cancelled";
  observe::LogInfo(request.spec().request_id,
                   "%s in stage %s: %d prompt + %d new tokens, %.3f s%s%s", word,
                   StageName(request.state()), usage.prompt_tokens, usage.completion_tokens,
                   seconds, outcome.error ? ": " : "", outcome.error ? outcome.error->message : "");
  metrics_.request_duration.Observe(seconds);
  if (!request.first_token_ns()) return;
  metrics_.CountTokens(usage.prompt_tokens, usage.completion_tokens);
  metrics_.decode_stage.Observe(SecondsBetween(*request.first_token_ns(), now));
  if (usage.completion_tokens > 1) {
    metrics_.time_per_output_token.Observe(
        SecondsBetween(*request.first_token_ns(), request.last_token_ns()) /
        static_cast<double>(usage.completion_tokens - 1));
  }
}

bool Dispatcher::WaitsForMemory(const Request& request) const {
  return std::find(reserving_.begin(), reserving_.end(), request.attempt().request) !=
         reserving_.end();
}

void Dispatcher::ForgetWorker(AttemptId attempt, proto::Role role) {
  const auto found = closing_.find(attempt);
  if (found == closing_.end()) return;
  (role == proto::ROLE_PREFILL ? found->second.prefill : found->second.decode) = 0;
  if (found->second.prefill == 0 && found->second.decode == 0) closing_.erase(found);
}

void Dispatcher::UpdateGauges() {
  int64_t depth[3] = {0, 0, 0};
  int64_t queued_tokens = 0;
  int64_t waiting_bytes = 0;
  for (const auto& [id, request] : requests_) {
    if (request->state() >= State::kPrefilling) continue;
    ++depth[static_cast<int>(request->state())];
    queued_tokens += static_cast<int64_t>(request->spec().prompt_ids.size());
    waiting_bytes += request->spec().kv_bytes;
  }
  metrics_.in_flight.Set(static_cast<double>(requests_.size()));
  metrics_.admission_depth.Set(static_cast<double>(depth[0]));
  metrics_.prefill_depth.Set(static_cast<double>(depth[1]));
  metrics_.decode_depth.Set(static_cast<double>(depth[2]));
  metrics_.prefill_queued_tokens.Set(static_cast<double>(queued_tokens));
  metrics_.waiting_kv_bytes.Set(static_cast<double>(waiting_bytes));
  metrics_.held_kv_bytes.Set(static_cast<double>(ledger_.held_bytes()));
  for (const auto& [role, name] :
       {std::pair(proto::ROLE_PREFILL, "prefill"), std::pair(proto::ROLE_DECODE, "decode")}) {
    metrics_.SetWorkers(name, "ready", workers_.CountReady(role));
    metrics_.SetWorkers(name, "draining", workers_.CountDraining(role));
  }
}

void Dispatcher::UpdateReadiness() {
  const absl::Status ready = draining_ ? Unavailable("draining") : workers_.CanServe();
  MutexLock lock(mutex_);
  ready_ = ready;
}

}  // namespace anchorage::router
