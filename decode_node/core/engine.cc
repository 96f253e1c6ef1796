#include "decode_node/core/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "kv/layer_cache.h"

namespace anchorage::decode {

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const model::Model& model,
                                                       std::vector<int32_t> model_stop_ids,
                                                       const EngineOptions& options,
                                                       const Clock& clock, kernels::Stream& stream,
                                                       EngineListener& listener) {
  if (options.kv_limit_bytes <= 0) return Invalid("the KV memory must be above 0 bytes");
  ASSIGN_OR_RETURN(std::unique_ptr<BatchStep> step,
                   BatchStep::Create(model, std::move(model_stop_ids), stream));
  return std::unique_ptr<Engine>(new Engine(model, options, clock, listener, std::move(step)));
}

Engine::Engine(const model::Model& model, const EngineOptions& options, const Clock& clock,
               EngineListener& listener, std::unique_ptr<BatchStep> step)
    : model_(model),
      options_(options),
      clock_(clock),
      listener_(listener),
      arena_(options.kv_limit_bytes),
      landings_(arena_, clock, options.lease_ns),
      step_(std::move(step)),
      last_step_ns_(clock.NowNs()) {}

Engine::~Engine() = default;

ReserveAnswer Engine::Reserve(SequenceRequest request) {
  ReserveAnswer answer;
  answer.headroom_bytes = arena_.usage().headroom_bytes();
  const std::string problem =
      kv::CheckPlan(model_.geometry(), options_.plan, request.prompt_tokens, request.max_new);
  if (!problem.empty()) {
    answer.status = Invalid("%s", problem);
    return answer;
  }
  if (request.prompt_tokens + request.max_new > model_.config().context_length) {
    answer.status = Invalid("%d prompt and %d new tokens exceed the context of %d",
                            request.prompt_tokens, request.max_new, model_.config().context_length);
    return answer;
  }
  answer.status = model::CheckSampling(request.sampling, model_.config().vocab_size);
  if (!answer.status.ok()) return answer;
  const kv::RequestPlan plan =
      kv::PlanRequest(model_.geometry(), options_.plan, request.prompt_tokens, request.max_new);
  answer.bytes = plan.bytes;
  answer.never = plan.bytes > options_.kv_limit_bytes;

  MutexLock lock(mutex_);
  const absl::StatusOr<LandingGrant> grant = landings_.Reserve(request.id, plan);
  answer.status = grant.status();
  if (!grant.ok()) return answer;
  answer.nonce = grant->nonce;
  const AttemptId id = request.id;
  requests_.try_emplace(id, std::move(request));
  return answer;
}

absl::StatusOr<RunningLanding> Engine::Announce(const LayerAnnouncement& announcement) {
  return landings_.Announce(announcement);
}

std::optional<LandedLayer> Engine::Quiet(uint64_t token, const absl::Status& landed) {
  std::optional<LandedLayer> layer = landings_.Quiet(token, landed);
  if (!landed.ok()) ReportFailedLandings();
  return layer;
}

absl::Status Engine::Verify(uint64_t token, const LandedLayer& landed) {
  const std::span<const std::byte> region = landed.memory->region(landed.layer);
  absl::Status verdict =
      kv::Checksum(region) == landed.checksum
          ? kv::VerifyLayer(landed.memory->plan().layers[static_cast<size_t>(landed.layer)], region)
          : DataLoss("checksum mismatch");
  verdict = Annotate(
      verdict, absl::StrFormat("layer %d of attempt %s", landed.layer, landed.attempt.ToString()));
  landings_.Verified(token, verdict);
  if (!verdict.ok()) ReportFailedLandings();
  return verdict;
}

absl::Status Engine::Close(AttemptId id, uint64_t nonce, int32_t first_token) {
  if (first_token < 0 || first_token >= model_.config().vocab_size) {
    return Invalid("first token %d is outside the vocabulary", first_token);
  }
  {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(std::shared_ptr<Grant> memory, landings_.Complete(id, nonce));
    auto request = requests_.extract(id);
    auto sequence =
        std::make_unique<Sequence>(std::move(request.mapped()), std::move(memory), first_token);
    in_batch_[id] = sequence.get();
    ready_.push_back({std::move(sequence), clock_.NowNs()});
  }
  Wake();
  return absl::OkStatus();
}

bool Engine::Cancel(AttemptId id) {
  {
    MutexLock lock(mutex_);
    if (const auto found = in_batch_.find(id); found != in_batch_.end()) {
      found->second->Cancel();
      woken_ = true;
      work_.NotifyAll();
      return true;
    }
    if (!landings_.Abort(id)) return false;
    requests_.erase(id);
  }
  listener_.OnEnded(id, absl::CancelledError("cancelled"), "transfer");
  return true;
}

bool Engine::ExpireLeases() {
  const std::vector<AttemptId> expired = landings_.ExpireLeases();
  for (const AttemptId id : expired) {
    {
      MutexLock lock(mutex_);
      requests_.erase(id);
    }
    listener_.OnEnded(id, absl::DeadlineExceededError("the lease on its memory ran out"),
                      "transfer");
  }
  return !expired.empty();
}

void Engine::ReportFailedLandings() {
  for (const auto& [id, status] : landings_.TakeFailures()) {
    {
      MutexLock lock(mutex_);
      requests_.erase(id);
    }
    listener_.OnEnded(id, status, "transfer");
  }
}

void Engine::Retire(AttemptId id) {
  MutexLock lock(mutex_);
  in_batch_.erase(id);
  landings_.RememberEnded(id);
}

void Engine::JoinReady() {
  std::vector<Ready> ready;
  {
    MutexLock lock(mutex_);
    ready.swap(ready_);
  }
  const int64_t now = clock_.NowNs();
  for (auto& [sequence, since_ns] : ready) {
    listener_.OnJoin(now - since_ns);
    listener_.OnToken(sequence->request().id, 0, sequence->tokens().front(), model::Finish::kNone);
    batch_.push_back(std::move(sequence));
  }
}

void Engine::DropCancelled() {
  std::erase_if(batch_, [&](std::unique_ptr<Sequence>& sequence) {
    if (!sequence->cancelled()) return false;
    const AttemptId id = sequence->request().id;
    Retire(id);
    sequence.reset();  // the memory is free before anybody hears of it
    listener_.OnEnded(id, absl::CancelledError("cancelled"), "decode");
    return true;
  });
}

bool Engine::RunStep() {
  last_step_ns_ = clock_.NowNs();
  JoinReady();
  DropCancelled();
  active_ = static_cast<int64_t>(batch_.size());
  if (batch_.empty()) return false;

  std::vector<Sequence*> rows;
  for (const std::unique_ptr<Sequence>& sequence : batch_) rows.push_back(sequence.get());
  const std::vector<StepResult> results = step_->Run(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepResult& result = results[i];
    const AttemptId id = rows[i]->request().id;
    const int64_t index = static_cast<int64_t>(rows[i]->tokens().size()) - 1;
    const bool over = !result.status.ok() || result.finish != model::Finish::kNone;
    if (over) {
      Retire(id);
      batch_[i].reset();
    }
    if (result.status.ok()) {
      listener_.OnToken(id, index, result.token, result.finish);
    } else {
      listener_.OnEnded(id, result.status, "decode");
    }
  }
  std::erase_if(batch_, [](const auto& sequence) { return sequence == nullptr; });
  active_ = static_cast<int64_t>(batch_.size());
  listener_.OnStep(static_cast<int64_t>(rows.size()), clock_.NowNs() - last_step_ns_);
  last_step_ns_ = clock_.NowNs();
  return true;
}

void Engine::WaitForWork(int64_t timeout_ms) {
  MutexLock lock(mutex_);
  if (!woken_ && ready_.empty() && batch_.empty()) {
    work_.WaitFor(mutex_, std::chrono::milliseconds(timeout_ms));
  }
  woken_ = false;
}

int64_t Engine::sequence_capacity() const {
  const ArenaUsage usage = arena_.usage();
  int64_t requests = 0;
  {
    MutexLock lock(mutex_);
    requests = static_cast<int64_t>(requests_.size() + in_batch_.size());
  }
  const int64_t bytes = usage.used_bytes + usage.reserved_bytes;
  if (requests > 0 && bytes > 0) return usage.limit_bytes * requests / bytes;
  const kv::RequestPlan longest =
      kv::PlanRequest(model_.geometry(), options_.plan, model_.config().context_length - 1, 1);
  return usage.limit_bytes / longest.bytes;
}

void Engine::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  work_.NotifyAll();
}

}  // namespace anchorage::decode
