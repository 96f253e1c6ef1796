#include "prefill_node/engine_thread.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "prefill_node/core/batching.h"

namespace anchorage::prefill {
namespace {

int64_t NumTokens(const Job& job) { return static_cast<int64_t>(job.prompt.prompt_ids.size()); }

bool IsShort(const std::shared_ptr<Job>& job) {
  return NumTokens(*job) <= BatchLimits{}.short_tokens;
}

}  // namespace

EngineThread::EngineThread(Engine& engine, OnStart on_start, OnDone on_done)
    : engine_(engine),
      on_start_(std::move(on_start)),
      on_done_(std::move(on_done)),
      thread_([this] { Run(); }) {}

void EngineThread::Submit(std::shared_ptr<Job> job) {
  MutexLock lock(mutex_);
  waiting_.push_back(std::move(job));
  changed_.NotifyOne();
}

bool EngineThread::has_waiting() const {
  MutexLock lock(mutex_);
  return !waiting_.empty();
}

bool EngineThread::has_waiting_short() const {
  MutexLock lock(mutex_);
  return std::any_of(waiting_.begin(), waiting_.end(), IsShort);
}

void EngineThread::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

EngineThread::Jobs EngineThread::TakeBatch() {
  MutexLock lock(mutex_);
  while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
  return Take(std::numeric_limits<int64_t>::max());
}

EngineThread::Jobs EngineThread::TakeShortBatch() {
  MutexLock lock(mutex_);
  return Take(BatchLimits{}.short_tokens);
}

EngineThread::Jobs EngineThread::Take(int64_t max_tokens_each) {
  if (stopping_) return {};
  std::vector<std::shared_ptr<Job>*> candidates;
  std::vector<int64_t> lengths;
  for (std::shared_ptr<Job>& job : waiting_) {
    if (NumTokens(*job) > max_tokens_each) continue;
    candidates.push_back(&job);
    lengths.push_back(NumTokens(*job));
  }
  Jobs jobs;
  for (const size_t index : ChooseBatch(lengths, BatchLimits{})) {
    jobs.push_back(std::move(*candidates[index]));
  }
  std::erase(waiting_, nullptr);
  return jobs;
}

void EngineThread::Run() {
  for (;;) {
    const Jobs jobs = TakeBatch();
    if (jobs.empty()) return;
    RunBatch(jobs);
  }
}

void EngineThread::RunBatch(const Jobs& jobs) {
  on_start_();
  std::vector<PrefillRequest> requests;
  for (const auto& job : jobs) {
    requests.push_back({.prompt_ids = job->prompt.prompt_ids,
                        .sampling = job->prompt.sampling,
                        .packing = job->packing,
                        .sink = job->shipment.get(),
                        .cancelled = &job->cancelled});
  }
  const bool is_long = !IsShort(jobs.front());
  const std::unique_ptr<Batch> batch = engine_.Start(requests);
  while (!batch->done()) {
    batch->Step();
    if (!is_long || batch->done()) continue;
    if (const Jobs overtaking = TakeShortBatch(); !overtaking.empty()) RunBatch(overtaking);
  }
  std::vector<PrefillResult> results = batch->TakeResults();
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i]->result = std::move(results[i]);
    on_done_(jobs[i]);
  }
}

}  // namespace anchorage::prefill
