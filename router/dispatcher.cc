#include "router/dispatcher.h"

#include <algorithm>

#include "common/status.h"
#include "observe/logging.h"
#include "router/worker_messages.h"

namespace anchorage::router {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr uint32_t kFirstGeneration = 1;
constexpr int64_t kMaxLeaseMs = 3'600'000;
constexpr int64_t kRenewalsPerLease = 3;

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
      observer_(clock, metrics),
      health_(clock),
      prefill_handler_(std::make_unique<Handler>(this, proto::ROLE_PREFILL)),
      decode_handler_(std::make_unique<Handler>(this, proto::ROLE_DECODE)),
      workers_(std::move(identity)),
      placement_(&workers_, &ledger_),
      next_request_(options.boot_id) {
  UpdateReadiness();
  observer_.Snapshot(requests_, ledger_, workers_);
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
  const int64_t limit = placement_.LargestDecodeLimit();
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
  health_.Beat();
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
  closing_.Repeat(now, options_.cancel_repeat_ms * kNsPerMs,
                  [this](WorkerId worker, const AttemptId& attempt, const std::string& log_id) {
                    SendTo(worker, CancelMessage(attempt, log_id));
                  });
  RenewLeases();
  Pump();
  observer_.Snapshot(requests_, ledger_, workers_);
}

void Dispatcher::BeginDrain() {
  draining_ = true;
  UpdateReadiness();
}

void Dispatcher::FailAll(const ApiError& error) {
  while (!requests_.empty()) Fail(*requests_.begin()->second, error);
}

// --- Towards the workers -------------------------------------------------------------------------

void Dispatcher::Pump() {
  ReserveAll();
  while (!waiting_.empty() && TryEnqueue(*requests_.at(waiting_.front()))) waiting_.pop_front();
}

bool Dispatcher::Place(Request& request) {
  if (request.spec().prefill_only()) {
    const auto prefill = placement_.Prefill(requests_);
    if (!prefill) return false;
    request.prefill = *prefill;
    return true;
  }
  const auto pair = placement_.PairFor(request.spec().kv_bytes, requests_);
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
  const int64_t age_ms = (clock_.NowNs() - request.arrived_ns()) / kNsPerMs;
  SendTo(request.prefill,
         EnqueueMessage(request, std::max<int64_t>(1, options_.request_timeout_ms - age_ms)));
  return true;
}

void Dispatcher::ReserveAll() {
  std::set<uint64_t> short_models;  // an older request of theirs waits on
  std::erase_if(reserving_, [&](uint64_t id) {
    Request& request = *requests_.at(id);
    const Worker* const prefill = workers_.Find(request.prefill);
    if (prefill == nullptr) return false;  // lost a moment ago: the request is about to fail
    if (short_models.contains(prefill->model())) return false;
    if (TryReserve(request, *prefill)) return true;
    short_models.insert(prefill->model());
    return false;
  });
}

bool Dispatcher::TryReserve(Request& request, const Worker& prefill) {
  const int64_t bytes = request.spec().kv_bytes;
  const auto decode = placement_.DecodeToReserve(request.decode, prefill.model(), bytes);
  if (!decode) return false;
  request.decode = *decode;
  ledger_.Reserve(*decode, request.attempt(), bytes);
  SendTo(*decode, ReserveMessage(request, workers_.IdentityOf(prefill)));
  return true;
}

void Dispatcher::StartPrefill(Request& request, const proto::Granted* granted) {
  request.Advance(State::kPrefilling);
  request.prefill_started_ns = clock_.NowNs();
  observer_.OnPrefillStarted(request);
  SendTo(request.prefill, StartPrefillMessage(request, granted));
}

void Dispatcher::RenewLeases() {
  const int64_t now = clock_.NowNs();
  for (const auto& [id, request] : requests_) {
    if (request->state() != State::kPrefilling || request->lease_ms == 0) continue;
    if (now - request->renewed_ns < request->lease_ms * kNsPerMs / kRenewalsPerLease) continue;
    request->renewed_ns = now;
    SendTo(request->decode, RenewMessage(*request));
  }
}

void Dispatcher::SendTo(WorkerId id, proto::Envelope message) {
  if (Worker* worker = workers_.Find(id)) worker->channel->Send(std::move(message));
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
  closing_.RemoveWorker(id);
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
  const std::optional<int64_t> headroom = HeadroomOf(state);
  if (!headroom) {
    observe::LogWarning("", "%s sent memory numbers that make no sense and gets no requests",
                        worker.channel->peer_address());
  }
  ledger_.Correct(worker.id, headroom.value_or(0), state.memory_limit_bytes());
}

void Dispatcher::OnTaken(Worker& worker, const proto::Attempt& attempt) {
  Request* request = Find(attempt);
  if (request == nullptr || request->prefill != worker.id || request->state() != State::kQueued) {
    SendTo(worker.id, CancelMessage(IdOf(attempt), attempt.request_id()));
    return;
  }
  if (request->spec().prefill_only()) {
    StartPrefill(*request, nullptr);
    return;
  }
  request->Advance(State::kReserving);
  reserving_.insert(attempt.request());
}

void Dispatcher::OnGranted(Worker& worker, const proto::Granted& granted) {
  Request* request = Find(granted.attempt());
  if (request == nullptr || request->decode != worker.id || request->state() != State::kReserving) {
    SendTo(worker.id, CancelMessage(IdOf(granted.attempt()), granted.attempt().request_id()));
    return;
  }
  if (granted.bytes() != request->spec().kv_bytes) {
    observe::LogError(request->spec().log_id, "planned %d bytes, %s granted %d",
                      request->spec().kv_bytes, worker.channel->peer_address(), granted.bytes());
  }
  ledger_.Grant(worker.id, request->attempt(), request->spec().kv_bytes);
  request->lease_ms = std::clamp<int64_t>(granted.lease_ms(), 0, kMaxLeaseMs);
  request->renewed_ns = clock_.NowNs();
  StartPrefill(*request, &granted);
}

void Dispatcher::OnRefused(Worker& worker, const proto::Refused& refused) {
  const AttemptId attempt = IdOf(refused.attempt());
  ledger_.Refuse(worker.id, attempt, refused.headroom_bytes());
  closing_.Confirm(attempt, proto::ROLE_DECODE);
  Request* request = Find(refused.attempt());
  if (request == nullptr || request->decode != worker.id || request->state() != State::kReserving) {
    return;
  }
  request->decode = 0;
  observe::LogDebug(request->spec().log_id, "%s refused %d bytes: %s",
                    worker.channel->peer_address(), refused.needed_bytes(), refused.reason());
  if (refused.never() && refused.needed_bytes() > ledger_.limit(worker.id)) {
    metrics_.CountRejection("headroom");
    return Fail(*request, NeverFits(refused.needed_bytes(), ledger_.limit(worker.id)));
  }
  if (refused.never()) {
    observe::LogWarning(request->spec().log_id, "%s will never take it: %s",
                        worker.channel->peer_address(), refused.reason());
    return Fail(*request, StageFailed("decode", "A decode node refused the request."));
  }
  reserving_.insert(attempt.request);  // where it was
}

void Dispatcher::OnPrefillDone(Worker& worker, const proto::PrefillDone& done) {
  const AttemptId attempt = IdOf(done.attempt());
  closing_.Confirm(attempt, proto::ROLE_PREFILL);
  Request* request = Find(done.attempt());
  if (request == nullptr || request->prefill != worker.id) return;
  request->prefill = 0;
  // In kDecoding the decode node's first token was faster than this word.
  if (request->state() == State::kPrefilling) request->Advance(State::kDecoding);
  if (request->state() != State::kDecoding) {
    Fail(*request, StageFailed("prefill", "A worker answered out of turn."));
    return;
  }
  observer_.OnPrefillDone(*request);
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
    closing_.Confirm(attempt, proto::ROLE_DECODE);
  }
  const bool in_turn =
      request != nullptr && request->decode == worker.id && request->state() >= State::kPrefilling;
  if (!in_turn) {
    if (!finish) SendTo(worker.id, CancelMessage(attempt, tokens.attempt().request_id()));
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
  closing_.Confirm(attempt, worker.role);
  Request* request = Find(ended.attempt());
  if (request == nullptr) return;
  WorkerId& held_by = at_prefill ? request->prefill : request->decode;
  if (held_by != worker.id) return;  // it had already said what matters
  held_by = 0;
  observe::LogWarning(request->spec().log_id, "%s ended it in stage %s: %s (%d)",
                      worker.channel->peer_address(), ended.stage(), ended.message(),
                      ended.status());
  Fail(*request, ErrorOf(ended));
}

// --- Ends ----------------------------------------------------------------------------------------

void Dispatcher::Accept(Request& request, int64_t first_index, std::span<const int32_t> ids,
                        std::optional<FinishReason> finish) {
  std::optional<int64_t> previous_ns;
  if (request.first_token_ns()) previous_ns = request.last_token_ns();
  Request::Step step = request.AcceptTokens(first_index, ids, finish, clock_.NowNs());
  observer_.OnTokens(request, step.num_new, previous_ns);
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
  const State state = request.state();
  std::erase(waiting_, attempt.request);
  const bool reserve_unsent = WaitsForMemory(request);
  reserving_.erase(attempt.request);
  if (state < State::kReserving || reserve_unsent) {
    ledger_.Release(request.decode, attempt);  // a promise, of which the node knows nothing
    request.decode = 0;
  }
  const std::string& log_id = request.spec().log_id;
  for (WorkerId* holder : {&request.prefill, &request.decode}) {
    if (workers_.Find(*holder) == nullptr) *holder = 0;
    SendTo(*holder, CancelMessage(attempt, log_id));
  }
  closing_.Add(attempt, request.prefill, request.decode, log_id, clock_.NowNs());
  // Out of the map first: the sink's last call sees an engine without it.
  const std::unique_ptr<Request> owned = std::move(requests_.at(attempt.request));
  requests_.erase(attempt.request);
  observer_.OnEnd(*owned, outcome);
  owned->End(std::move(outcome));
}

bool Dispatcher::WaitsForMemory(const Request& request) const {
  return reserving_.contains(request.attempt().request);
}

void Dispatcher::UpdateReadiness() {
  health_.SetReady(draining_ ? Unavailable("draining") : workers_.CanServe());
}

}  // namespace anchorage::router
