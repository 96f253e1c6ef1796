#include "decode_node/node.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "observe/host_port.h"
#include "observe/logging.h"
#include "observe/shared_metrics.h"
#include "worker/wire.h"

namespace anchorage::decode {
namespace {

constexpr int64_t kIdleWaitMs = 500;
constexpr int64_t kStalledStepNs = 60'000'000'000;
constexpr int64_t kLeaseSweepMs = 250;

}  // namespace

absl::StatusOr<std::unique_ptr<DecodeNode>> DecodeNode::Create(const worker::Settings& settings,
                                                               const NodeOptions& options,
                                                               const worker::LoadedModel& model,
                                                               transport::EventLoop& loop,
                                                               observe::MetricsRegistry& registry) {
  std::unique_ptr<DecodeNode> node(new DecodeNode(settings, options, model, loop, registry));
  RETURN_IF_ERROR(node->CreateEngine(model, registry));
  return node;
}

DecodeNode::DecodeNode(const worker::Settings& settings, const NodeOptions& options,
                       const worker::LoadedModel& model, transport::EventLoop& loop,
                       observe::MetricsRegistry& registry)
    : ControlNode(proto::ROLE_DECODE, settings, worker::MakeIdentity(*model.model, settings.plan),
                  loop),
      options_(options),
      metrics_(registry, model.model->config().name),
      transfers_(registry, Clock::Real(), "decode", "rx", settings.transport),
      stream_(settings.threads) {}

absl::Status DecodeNode::CreateEngine(const worker::LoadedModel& model,
                                      observe::MetricsRegistry& registry) {
  const EngineOptions options{.kv_limit_bytes = options_.kv_memory_bytes,
                              .lease_ns = options_.lease_ms * 1'000'000,
                              .plan = settings().plan};
  ASSIGN_OR_RETURN(engine_, Engine::Create(*model.model, model.stop_ids, options, Clock::Real(),
                                           stream_, *this));
  metrics_.Watch(registry, *engine_);
  verifier_ = std::make_unique<Verifier>();
  receiver_ = std::make_unique<LandingReceiver>(
      *engine_,
      LandingReceiver::Expected{identity().model_fingerprint(), identity().plan_fingerprint()},
      *verifier_, transfers_, metrics_);
  return absl::OkStatus();
}

DecodeNode::~DecodeNode() { Stop(); }

absl::Status DecodeNode::StartWork() {
  ASSIGN_OR_RETURN(const observe::HostPort address, observe::ParseHostPort(options_.data_address));
  transport::DataPlaneOptions data;
  data.listen = options_.data_address;
  data.receiver = receiver_.get();
  ASSIGN_OR_RETURN(data_, OpenDataPlane(address.host, data));
  observe::LogInfo("", "KV lands at %s, in %s of memory", data_->listen_address(),
                   FormatBytes(options_.kv_memory_bytes));
  engine_thread_ = std::thread([this] { RunEngine(); });
  loop().Every(kLeaseSweepMs, [this] { ExpireLeases(); });
  return absl::OkStatus();
}

void DecodeNode::StopWork() {
  if (data_ != nullptr) data_->Shutdown();
  if (verifier_ != nullptr) verifier_->Stop();
  if (!engine_thread_.joinable()) return;
  engine_->Wake();
  engine_thread_.join();
}

absl::Status DecodeNode::Live() const {
  const int64_t silent_ns = Clock::Real().NowNs() - engine_->last_step_ns();
  if (started() && !stopping() && silent_ns > kStalledStepNs) {
    return Unavailable("the step loop has been stuck for %d s", silent_ns / 1'000'000'000);
  }
  return absl::OkStatus();
}

absl::Status DecodeNode::Healthy() const {
  return quarantine_.Judge(engine_->usage(), Clock::Real().NowNs());
}

bool DecodeNode::Idle() const { return owners_.empty(); }

void DecodeNode::OnRouterGone(const transport::ControlChannelPtr& router) {
  std::vector<AttemptId> orphans;
  for (const auto& [id, owner] : owners_) {
    if (owner.router == router) orphans.push_back(id);
  }
  for (const AttemptId id : orphans) engine_->Cancel(id);
}

bool DecodeNode::HandleMessage(const transport::ControlChannelPtr& router,
                               proto::Envelope& message) {
  switch (message.body_case()) {
    case proto::Envelope::kReserve:
      OnReserve(router, message.reserve());
      return true;
    case proto::Envelope::kRenew:
      OnRenew(router, message.renew());
      return true;
    case proto::Envelope::kCancel:
      OnCancel(router, message.cancel());
      return true;
    default:
      return false;
  }
}

void DecodeNode::OnReserve(const transport::ControlChannelPtr& router,
                           const proto::Reserve& reserve) {
  ReserveAnswer answer;
  if (draining()) {
    answer.status = absl::UnavailableError("draining");
    return Refuse(router, reserve.attempt(), answer);
  }
  answer.status = worker::CheckSameIdentity(identity(), reserve.identity());
  if (!answer.status.ok()) return Refuse(router, reserve.attempt(), answer);
  const AttemptId id = worker::FromProto(reserve.attempt());
  answer =
      engine_->Reserve({.id = id,
                        .request_id = reserve.attempt().request_id(),
                        .prompt_tokens = reserve.prompt_tokens(),
                        .max_new = reserve.max_new(),
                        .sampling = worker::FromProto(reserve.sampling()),
                        .prompt_ids = {reserve.prompt_ids().begin(), reserve.prompt_ids().end()}});
  if (!answer.status.ok()) return Refuse(router, reserve.attempt(), answer);
  owners_[id] = Owner{router, reserve.attempt().request_id()};
  proto::Envelope message;
  proto::Granted& granted = *message.mutable_granted();
  *granted.mutable_attempt() = reserve.attempt();
  granted.set_nonce(answer.nonce);
  granted.set_data_address(data_->listen_address());
  granted.set_code_packing(static_cast<uint32_t>(kCodePacking));
  granted.set_lease_ms(options_.lease_ms);
  granted.set_bytes(answer.bytes);
  router->Send(std::move(message));
}

void DecodeNode::Refuse(const transport::ControlChannelPtr& router, const proto::Attempt& attempt,
                        const ReserveAnswer& answer) {
  metrics_.OnRefused(draining());
  proto::Envelope message;
  proto::Refused& refused = *message.mutable_refused();
  *refused.mutable_attempt() = attempt;
  refused.set_needed_bytes(answer.bytes);
  refused.set_headroom_bytes(answer.headroom_bytes);
  refused.set_reason(std::string(answer.status.message()));
  refused.set_never(answer.never || answer.status.code() == absl::StatusCode::kInvalidArgument ||
                    answer.status.code() == absl::StatusCode::kFailedPrecondition);
  router->Send(std::move(message));
}

void DecodeNode::OnRenew(const transport::ControlChannelPtr& router, const proto::Renew& renew) {
  const AttemptId id = worker::FromProto(renew.attempt());
  // An owner is forgotten when the end of its attempt is sent, so this word never overtakes it.
  if (owners_.contains(id)) return engine_->RenewLease(id);
  router->Send(worker::EndedMessage(id, renew.attempt().request_id(),
                                    absl::AbortedError("the attempt has ended here"), "transfer"));
}

void DecodeNode::OnCancel(const transport::ControlChannelPtr& router, const proto::Cancel& cancel) {
  const AttemptId id = worker::FromProto(cancel.attempt());
  if (engine_->Cancel(id)) return;  // Ended follows
  router->Send(worker::EndedMessage(id, cancel.attempt().request_id(), absl::OkStatus(), "decode"));
}

void DecodeNode::OnToken(AttemptId id, int64_t index, int32_t token, model::Finish finish) {
  loop().Post([this, id, index, token, finish] { SendToken(id, index, token, finish); });
}

void DecodeNode::OnEnded(AttemptId id, const absl::Status& status, const char* stage) {
  loop().Post([this, id, status, stage] { SendEnded(id, status, stage); });
}

void DecodeNode::OnStep(int64_t batch_size, int64_t duration_ns) {
  metrics_.OnStep(batch_size, duration_ns);
  metrics_.OnTokens(batch_size);
}

void DecodeNode::SendToken(AttemptId id, int64_t index, int32_t token, model::Finish finish) {
  const auto owner = owners_.find(id);
  if (owner == owners_.end()) return;
  const int64_t now = Clock::Real().NowNs();
  if (index > 0) metrics_.OnGap(now - owner->second.last_token_ns);
  if (index == 0) owner->second.first_token_ns = now;
  owner->second.last_token_ns = now;
  owner->second.num_tokens = index + 1;
  proto::Envelope message;
  proto::Tokens& tokens = *message.mutable_tokens();
  *tokens.mutable_attempt() = worker::ToProto(id, owner->second.request_id);
  tokens.set_first_index(index);
  tokens.add_ids(token);
  tokens.set_finish(worker::ToProto(finish));
  owner->second.router->Send(std::move(message));
  if (finish != model::Finish::kNone) Forget(owner);
}

void DecodeNode::SendEnded(AttemptId id, const absl::Status& status, const char* stage) {
  const auto owner = owners_.find(id);
  if (owner == owners_.end()) return;
  if (status.code() != absl::StatusCode::kCancelled) {
    observe::LogWarning(owner->second.request_id, "attempt %s ended in %s: %s", id.ToString(),
                        stage, std::string(status.message()));
  }
  owner->second.router->Send(worker::EndedMessage(id, owner->second.request_id, status, stage));
  Forget(owner);
}

void DecodeNode::Forget(Owners::iterator owner) {
  const Owner& over = owner->second;
  if (over.num_tokens > 1) {
    metrics_.OnMeanGap((over.last_token_ns - over.first_token_ns) / (over.num_tokens - 1));
  }
  owners_.erase(owner);
}

void DecodeNode::ExpireLeases() {
  engine_->ExpireLeases();
  for (const uint64_t token : engine_->OverdueTokens()) data_->CloseLanding(token);
}

void DecodeNode::DescribeState(proto::NodeState& state) const {
  const ArenaUsage usage = engine_->usage();
  state.set_memory_limit_bytes(usage.limit_bytes);
  state.set_memory_used_bytes(usage.used_bytes);
  state.set_memory_reserved_bytes(usage.reserved_bytes);
  state.set_memory_quarantined_bytes(usage.quarantined_bytes);
  state.set_active_sequences(engine_->active_sequences());
  state.set_sequence_capacity(engine_->sequence_capacity());
}

void DecodeNode::RunEngine() {
  while (!stopping()) {
    if (!engine_->RunStep()) engine_->WaitForWork(kIdleWaitMs);
  }
}

}  // namespace anchorage::decode
