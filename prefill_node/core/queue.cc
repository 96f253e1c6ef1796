#include "prefill_node/core/queue.h"

#include <algorithm>

#include "common/status.h"

namespace anchorage::prefill {

int64_t PromptsToTake(std::span<const int64_t> waiting, int64_t prompts_ahead,
                      int64_t tokens_ahead) {
  int64_t count = 0;
  for (const int64_t tokens : waiting) {
    const bool first = prompts_ahead + count == 0;
    if (!first &&
        (tokens_ahead + tokens > kBatchTokens || prompts_ahead + count >= kBatchPrompts)) {
      break;
    }
    tokens_ahead += tokens;
    ++count;
  }
  return count;
}

absl::Status Queue::Push(const QueuedPrompt& prompt) {
  if (size() >= max_prompts_) return Exhausted("the prefill queue is full (%d prompts)", size());
  prompts_.push_back(prompt);
  tokens_ += prompt.tokens;
  return absl::OkStatus();
}

bool Queue::Remove(AttemptId id) {
  const auto found = std::find_if(prompts_.begin(), prompts_.end(),
                                  [&](const QueuedPrompt& prompt) { return prompt.id == id; });
  if (found == prompts_.end()) return false;
  tokens_ -= found->tokens;
  prompts_.erase(found);
  return true;
}

std::vector<QueuedPrompt> Queue::Take(int64_t prompts_ahead, int64_t tokens_ahead) {
  std::vector<int64_t> waiting;
  for (const QueuedPrompt& prompt : prompts_) {
    if (static_cast<int64_t>(waiting.size()) >= kBatchPrompts) break;
    waiting.push_back(prompt.tokens);
  }
  const auto end = prompts_.begin() + PromptsToTake(waiting, prompts_ahead, tokens_ahead);
  std::vector<QueuedPrompt> taken(prompts_.begin(), end);
  prompts_.erase(prompts_.begin(), end);
  for (const QueuedPrompt& prompt : taken) tokens_ -= prompt.tokens;
  return taken;
}

std::vector<QueuedPrompt> Queue::TakeExpired(int64_t now_ns) {
  std::vector<QueuedPrompt> expired;
  for (const QueuedPrompt& prompt : prompts_) {
    if (prompt.deadline_ns != 0 && now_ns >= prompt.deadline_ns) expired.push_back(prompt);
  }
  for (const QueuedPrompt& prompt : expired) Remove(prompt.id);
  return expired;
}

}  // namespace anchorage::prefill
