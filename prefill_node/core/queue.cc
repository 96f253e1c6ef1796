#include "prefill_node/core/queue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/status.h"

namespace anchorage::prefill {
namespace {

int64_t Tokens(const QueuedPrompt& prompt) {
  return static_cast<int64_t>(prompt.prompt_ids.size());
}

}  // namespace

bool PromptQueue::Expired(const QueuedPrompt& prompt) const {
  return prompt.deadline_ns != 0 && clock_.NowNs() >= prompt.deadline_ns;
}

absl::Status PromptQueue::Push(QueuedPrompt prompt) {
  MutexLock lock(mutex_);
  if (Expired(prompt)) return absl::DeadlineExceededError("the deadline has passed");
  const auto same = [&prompt](const QueuedPrompt& other) { return other.id == prompt.id; };
  if (std::any_of(waiting_.begin(), waiting_.end(), same)) {
    return Invalid("attempt %s waits already", prompt.id.ToString());
  }
  const int64_t tokens = Tokens(prompt);
  const bool full = static_cast<int64_t>(waiting_.size()) >= limits_.max_prompts ||
                    tokens_ + tokens > limits_.max_tokens;
  if (full && (!waiting_.empty() || limits_.max_prompts < 1)) {
    return Exhausted("the prefill queue is full: %d prompts, %d tokens", waiting_.size(), tokens_);
  }
  prompt.enqueued_ns = clock_.NowNs();
  tokens_ += tokens;
  waiting_.push_back(std::move(prompt));
  return absl::OkStatus();
}

bool PromptQueue::Remove(AttemptId id) {
  MutexLock lock(mutex_);
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [id](const QueuedPrompt& prompt) { return prompt.id == id; });
  if (found == waiting_.end()) return false;
  tokens_ -= Tokens(*found);
  waiting_.erase(found);
  return true;
}

std::vector<QueuedPrompt> PromptQueue::TakeExpired() {
  MutexLock lock(mutex_);
  std::vector<QueuedPrompt> expired;
  std::erase_if(waiting_, [&](QueuedPrompt& prompt) REQUIRES(mutex_) {
    if (!Expired(prompt)) return false;
    tokens_ -= Tokens(prompt);
    expired.push_back(std::move(prompt));
    return true;
  });
  return expired;
}

std::vector<QueuedPrompt> PromptQueue::TakeBatch(const BatchLimits& limits) {
  MutexLock lock(mutex_);
  return Take(limits, std::numeric_limits<int64_t>::max());
}

std::vector<QueuedPrompt> PromptQueue::TakeShortBatch(const BatchLimits& limits) {
  MutexLock lock(mutex_);
  return Take(limits, limits.short_tokens);
}

std::vector<QueuedPrompt> PromptQueue::Take(const BatchLimits& limits, int64_t max_tokens_each) {
  std::vector<size_t> candidates;
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (Expired(waiting_[i]) || Tokens(waiting_[i]) > max_tokens_each) continue;
    candidates.push_back(i);
    lengths.push_back(Tokens(waiting_[i]));
  }
  const std::vector<size_t> chosen = ChooseBatch(lengths, limits);
  std::vector<QueuedPrompt> batch;
  for (const size_t index : chosen) {
    batch.push_back(std::move(waiting_[candidates[index]]));
    tokens_ -= Tokens(batch.back());
  }
  for (auto index = chosen.rbegin(); index != chosen.rend(); ++index) {
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(candidates[*index]));
  }
  return batch;
}

QueueDepth PromptQueue::depth() const {
  MutexLock lock(mutex_);
  return {static_cast<int64_t>(waiting_.size()), tokens_};
}

}  // namespace anchorage::prefill
