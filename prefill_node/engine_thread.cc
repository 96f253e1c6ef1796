#include "prefill_node/engine_thread.h"

#include <utility>

#include "prefill_node/core/batching.h"

namespace anchorage::prefill {

EngineThread::EngineThread(Engine& engine, OnDone on_done)
    : engine_(engine), on_done_(std::move(on_done)), thread_([this] { Run(); }) {}

void EngineThread::Submit(std::shared_ptr<Job> job) {
  MutexLock lock(mutex_);
  waiting_.push_back(std::move(job));
  changed_.NotifyOne();
}

bool EngineThread::has_waiting() const {
  MutexLock lock(mutex_);
  return !waiting_.empty();
}

void EngineThread::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (const auto& job : waiting_) job->cancelled = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<std::shared_ptr<Job>> EngineThread::TakeBatch() {
  MutexLock lock(mutex_);
  while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
  if (stopping_) return {};
  std::vector<int64_t> lengths;
  for (const auto& job : waiting_) {
    lengths.push_back(static_cast<int64_t>(job->prompt.prompt_ids.size()));
  }
  std::vector<std::shared_ptr<Job>> batch;
  for (const size_t index : ChooseBatch(lengths, BatchLimits{})) {
    batch.push_back(std::move(waiting_[index]));
  }
  std::erase(waiting_, nullptr);
  return batch;
}

void EngineThread::Run() {
  for (;;) {
    const std::vector<std::shared_ptr<Job>> batch = TakeBatch();
    if (batch.empty()) return;
    std::vector<PrefillRequest> requests;
    for (const auto& job : batch) {
      requests.push_back({.prompt_ids = job->prompt.prompt_ids,
                          .sampling = job->prompt.sampling,
                          .packing = job->packing,
                          .sink = job->shipment.get(),
                          .cancelled = &job->cancelled});
    }
    std::vector<PrefillResult> results = engine_.Run(requests);
    for (size_t i = 0; i < batch.size(); ++i) {
      batch[i]->result = std::move(results[i]);
      on_done_(batch[i]);
    }
  }
}

}  // namespace anchorage::prefill
