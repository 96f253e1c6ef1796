#include "prefill_node/node.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/status_macros.h"
#include "observe/logging.h"
#include "observe/shared_metrics.h"
#include "worker/wire.h"

namespace anchorage::prefill {
namespace {

constexpr int64_t kStalledChunkNs = 600'000'000'000;
constexpr int64_t kDeadlineSweepMs = 100;
constexpr int64_t kMaxDeadlineMs = 3'600'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<PrefillNode>> PrefillNode::Create(
    const worker::Settings& settings, const NodeOptions& options, const worker::LoadedModel& model,
    transport::EventLoop& loop, observe::MetricsRegistry& registry) {
  std::unique_ptr<PrefillNode> node(new PrefillNode(settings, options, model, loop, registry));
  RETURN_IF_ERROR(node->CreateEngine(model, registry));
  return node;
}

PrefillNode::PrefillNode(const worker::Settings& settings, const NodeOptions& options,
                         const worker::LoadedModel& model, transport::EventLoop& loop,
                         observe::MetricsRegistry& registry)
    : ControlNode(proto::ROLE_PREFILL, settings, worker::MakeIdentity(*model.model, settings.plan),
                  loop),
      options_(options),
      model_(*model.model),
      metrics_(registry),
      transfers_(registry, Clock::Real(), "prefill", "tx", settings.transport),
      stream_(settings.threads),
      queue_(options.queue, Clock::Real()) {}

absl::Status PrefillNode::CreateEngine(const worker::LoadedModel& model,
                                       observe::MetricsRegistry& registry) {
  gauges_.last_step_ns = Clock::Real().NowNs();
  const EngineOptions options{
      .chunk_tokens = options_.chunk_tokens,
      .plan = settings().plan,
      .model_stop_ids = model.stop_ids,
      .observer = [this](const ScheduleEvent&) { gauges_.last_step_ns = Clock::Real().NowNs(); }};
  ASSIGN_OR_RETURN(engine_, Engine::Create(model_, options, accountant_, Clock::Real(), stream_));
  metrics_.Watch(registry, gauges_, accountant_);
  return absl::OkStatus();
}

PrefillNode::~PrefillNode() { Stop(); }

absl::Status PrefillNode::StartWork() {
  transport::DataPlaneOptions data;
  data.interface_host = options_.data_host;
  ASSIGN_OR_RETURN(data_, OpenDataPlane(options_.data_host, data));
  engine_thread_ = std::make_unique<EngineThread>(
      *engine_, [this] { loop().Post([this] { TakeFromQueue(); }); },
      [this](JobPtr job) { loop().Post([this, job] { OnPrefilled(job); }); });
  loop().Every(kDeadlineSweepMs, [this] { ExpireDeadlines(); });
  return absl::OkStatus();
}

void PrefillNode::StopWork() {
  for (const auto& [id, job] : jobs_) job->cancelled = true;
  if (engine_thread_ != nullptr) engine_thread_->Stop();
  if (data_ != nullptr) data_->Shutdown();
}

absl::Status PrefillNode::Live() const {
  const int64_t silent_ns = Clock::Real().NowNs() - gauges_.last_step_ns;
  if (gauges_.running > 0 && silent_ns > kStalledChunkNs) {
    return Unavailable("the engine has been stuck for %d s", silent_ns / 1'000'000'000);
  }
  return absl::OkStatus();
}

bool PrefillNode::Idle() const { return jobs_.empty(); }

void PrefillNode::OnRouterGone(const transport::ControlChannelPtr& router) {
  std::vector<JobPtr> orphans;
  for (const auto& [id, job] : jobs_) {
    if (job->router == router) orphans.push_back(job);
  }
  for (const JobPtr& job : orphans) {
    CancelJob(job, absl::CancelledError("the router is gone"), "prefill");
  }
  TakeFromQueue();
}

bool PrefillNode::HandleMessage(const transport::ControlChannelPtr& router,
                                proto::Envelope& message) {
  switch (message.body_case()) {
    case proto::Envelope::kEnqueue:
      OnEnqueue(router, *message.mutable_enqueue());
      return true;
    case proto::Envelope::kStart:
      OnStart(router, message.start());
      return true;
    case proto::Envelope::kCancel:
      OnCancel(router, message.cancel());
      return true;
    default:
      return false;
  }
}

void PrefillNode::OnEnqueue(const transport::ControlChannelPtr& router, proto::Enqueue& enqueue) {
  const AttemptId id = worker::FromProto(enqueue.attempt());
  const std::string& request_id = enqueue.attempt().request_id();
  if (jobs_.contains(id)) return;  // asked twice: its answer is on the way
  auto job = std::make_shared<Job>();
  job->id = id;
  job->request_id = request_id;
  job->router = router;
  if (enqueue.deadline_ms() > 0) {
    job->deadline_ns =
        Clock::Real().NowNs() + std::min(enqueue.deadline_ms(), kMaxDeadlineMs) * 1'000'000;
  }
  const absl::Status status = Enqueue(*job, enqueue);
  if (!status.ok()) {
    router->Send(worker::EndedMessage(id, request_id, status, "queue"));
    return;
  }
  jobs_[id] = std::move(job);
  TakeFromQueue();
}

absl::Status PrefillNode::Enqueue(const Job& job, const proto::Enqueue& enqueue) {
  if (draining()) return absl::UnavailableError("draining");
  if (enqueue.max_new() < 1) return Invalid("%d new tokens were asked for", enqueue.max_new());
  const std::string wrong = kv::CheckPlan(model_.geometry(), settings().plan,
                                          enqueue.prompt_ids_size(), enqueue.max_new());
  if (!wrong.empty()) return Invalid("%s", wrong);
  QueuedPrompt prompt{.id = job.id,
                      .request_id = job.request_id,
                      .prompt_ids = {enqueue.prompt_ids().begin(), enqueue.prompt_ids().end()},
                      .max_new = enqueue.max_new(),
                      .sampling = worker::FromProto(enqueue.sampling()),
                      .deadline_ns = job.deadline_ns};
  RETURN_IF_ERROR(model::CheckSampling(prompt.sampling, model_.config().vocab_size));
  return queue_.Push(std::move(prompt));
}

void PrefillNode::TakeFromQueue() {
  if (stopping()) return;
  for (QueuedPrompt& prompt : NextBatch()) Take(std::move(prompt));
  const QueueDepth depth = queue_.depth();
  gauges_.queued_prompts = depth.prompts;
  gauges_.queued_tokens = depth.tokens;
  gauges_.running = static_cast<int64_t>(jobs_.size()) - depth.prompts;
}

// One batch at a time waits for its memory or, with it, for the engine. But where only a long
// prompt waits for the engine, short ones go on: they may overtake the one that runs.
std::vector<QueuedPrompt> PrefillNode::NextBatch() {
  const bool reserving = std::any_of(jobs_.begin(), jobs_.end(), [](const auto& entry) {
    return entry.second->state == Job::State::kTaken;
  });
  if (reserving || engine_thread_->has_waiting_short()) return {};
  return engine_thread_->has_waiting() ? queue_.TakeShortBatch({}) : queue_.TakeBatch({});
}

void PrefillNode::Take(QueuedPrompt prompt) {
  const JobPtr& job = jobs_.at(prompt.id);
  job->state = Job::State::kTaken;
  job->queue_ns = Clock::Real().NowNs() - prompt.enqueued_ns;
  job->prompt = std::move(prompt);
  metrics_.OnTaken(job->queue_ns);
  proto::Envelope message;
  *message.mutable_taken()->mutable_attempt() = worker::ToProto(job->id, job->request_id);
  job->router->Send(std::move(message));
}

std::shared_ptr<Shipment> PrefillNode::MakeShipment(const Job& job,
                                                    const proto::StartPrefill& start) {
  const Sender sender{boot(), identity().model_fingerprint(), identity().plan_fingerprint()};
  return std::make_shared<Shipment>(*data_, transfers_, sender, job.id,
                                    Destination{start.data_address(), start.nonce(), job.packing},
                                    model_.config().num_layers,
                                    [this, id = job.id](const absl::Status& status) {
                                      loop().Post([this, id, status] { OnShipped(id, status); });
                                    });
}

void PrefillNode::OnStart(const transport::ControlChannelPtr& router,
                          const proto::StartPrefill& start) {
  const AttemptId id = worker::FromProto(start.attempt());
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    router->Send(worker::EndedMessage(id, start.attempt().request_id(),
                                      absl::NotFoundError("no such attempt here"), "prefill"));
    return;
  }
  const JobPtr& job = found->second;
  if (job->state != Job::State::kTaken) return;
  if (start.code_packing() > static_cast<uint32_t>(kernels::CodePacking::kPlanar)) {
    return EndJob(job, Invalid("unknown code packing %d", start.code_packing()), "prefill");
  }
  if (start.data_address().empty() && job->prompt.max_new > 1) {
    return EndJob(job,
                  Invalid("%d tokens asked for and nowhere to send the cache", job->prompt.max_new),
                  "prefill");
  }
  job->packing = static_cast<kernels::CodePacking>(start.code_packing());
  if (!start.data_address().empty()) job->shipment = MakeShipment(*job, start);
  job->state = Job::State::kRunning;
  engine_thread_->Submit(job);
  TakeFromQueue();
}

void PrefillNode::OnCancel(const transport::ControlChannelPtr& router,
                           const proto::Cancel& cancel) {
  const AttemptId id = worker::FromProto(cancel.attempt());
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    router->Send(
        worker::EndedMessage(id, cancel.attempt().request_id(), absl::OkStatus(), "prefill"));
    return;
  }
  CancelJob(JobPtr(found->second), absl::CancelledError("cancelled"), "prefill");
  TakeFromQueue();
}

void PrefillNode::CancelJob(const JobPtr& job, const absl::Status& why, const char* stage) {
  switch (job->state) {
    case Job::State::kQueued:
      queue_.Remove(job->id);
      return EndJob(job, why, "queue");
    case Job::State::kTaken:
      return EndJob(job, why, "queue");
    case Job::State::kRunning:  // ends at the next chunk: see OnPrefilled
      if (job->failure.ok()) {
        job->failure = why;
        job->failed_stage = stage;
      }
      job->cancelled = true;
      return;
    case Job::State::kShipping:  // ends with the shipment: see OnShipped
      job->shipment->Fail(why);
  }
}

void PrefillNode::OnPrefilled(const JobPtr& job) {
  if (stopping()) return;
  const PrefillResult& result = job->result;
  const absl::Status status = job->failure.ok() ? result.status : job->failure;
  if (!status.ok()) {
    if (job->shipment != nullptr) job->shipment->Fail(status);
    EndJob(job, status, job->failed_stage);
    return TakeFromQueue();
  }
  const kv::RequestPlan plan =
      kv::PlanRequest(model_.geometry(), settings().plan,
                      static_cast<int64_t>(job->prompt.prompt_ids.size()), job->prompt.max_new);
  metrics_.OnPrefilled(result, plan.full_bytes);
  const model::Finish finish =
      model::FinishAfter(job->prompt.sampling, engine_->options().model_stop_ids,
                         result.first_token, 1, job->prompt.max_new);
  if (finish != model::Finish::kNone) {
    if (job->shipment != nullptr) {
      job->shipment->Fail(absl::CancelledError("the first token ended the request"));
    }
    SendDone(*job, finish);
    jobs_.erase(job->id);
  } else {
    job->state = Job::State::kShipping;
    job->shipment->Close(result.first_token);
  }
  TakeFromQueue();
}

void PrefillNode::OnShipped(AttemptId id, const absl::Status& status) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || stopping()) return;
  const JobPtr job = found->second;
  if (status.code() == absl::StatusCode::kAborted) metrics_.OnLeaseExpired();
  if (job->state == Job::State::kRunning) {  // a layer failed while later ones are computed
    return CancelJob(job, status, "transfer");
  }
  if (!status.ok()) {
    EndJob(job, status, "transfer");
  } else {
    metrics_.OnShipped(job->shipment->exposed_ns());
    SendDone(*job, model::Finish::kNone);
    jobs_.erase(id);
  }
  TakeFromQueue();
}

void PrefillNode::SendDone(const Job& job, model::Finish finish) {
  proto::Envelope message;
  proto::PrefillDone& done = *message.mutable_prefill_done();
  *done.mutable_attempt() = worker::ToProto(job.id, job.request_id);
  done.set_first_token(job.result.first_token);
  done.set_finish(worker::ToProto(finish));
  int64_t compress_ns = 0;
  for (const LayerTiming& layer : job.result.layers) compress_ns += layer.compress_ns;
  done.set_prefill_ns(job.result.total_ns - compress_ns);
  done.set_compress_ns(compress_ns);
  done.set_queue_ns(job.queue_ns);
  if (job.shipment != nullptr) done.set_transfer_exposed_ns(job.shipment->exposed_ns());
  job.router->Send(std::move(message));
}

void PrefillNode::EndJob(const JobPtr& job, const absl::Status& status, const char* stage) {
  if (status.code() != absl::StatusCode::kCancelled) {
    observe::LogWarning(job->request_id, "attempt %s ended in %s: %s", job->id.ToString(), stage,
                        std::string(status.message()));
  }
  const JobPtr keep = job;  // `job` may be the map's own
  keep->router->Send(worker::EndedMessage(keep->id, keep->request_id, status, stage));
  jobs_.erase(keep->id);
}

void PrefillNode::ExpireDeadlines() {
  const int64_t now = Clock::Real().NowNs();
  const absl::Status late = absl::DeadlineExceededError("the request's deadline has passed");
  for (const QueuedPrompt& prompt : queue_.TakeExpired()) {
    EndJob(JobPtr(jobs_.at(prompt.id)), late, "queue");
  }
  std::vector<JobPtr> expired;
  for (const auto& [id, job] : jobs_) {
    if (job->deadline_ns != 0 && now >= job->deadline_ns) expired.push_back(job);
  }
  for (const JobPtr& job : expired) CancelJob(job, late, "prefill");
  TakeFromQueue();
}

void PrefillNode::DescribeState(proto::NodeState& state) const {
  const QueueDepth depth = queue_.depth();
  state.set_queued_tokens(depth.tokens);
  state.set_queued_requests(depth.prompts);
  state.set_running_requests(static_cast<int64_t>(jobs_.size()) - depth.prompts);
}

}  // namespace anchorage::prefill
