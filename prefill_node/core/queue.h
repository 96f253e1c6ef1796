// Prompts that wait for the engine, first come first served.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"

namespace anchorage::prefill {

// A batch is one long prompt, or short ones that together are no longer than this.
inline constexpr int64_t kBatchTokens = 2048;
inline constexpr int64_t kBatchPrompts = 32;

// How many prompts from the head of `waiting` (their token counts, in order) may join
// `prompts_ahead` prompts of `tokens_ahead` tokens that were taken and have not started yet. At
// least one when there are none.
int64_t PromptsToTake(std::span<const int64_t> waiting, int64_t prompts_ahead,
                      int64_t tokens_ahead);

struct QueuedPrompt {
  AttemptId id;
  int64_t tokens = 0;
  int64_t enqueued_ns = 0;
  int64_t deadline_ns = 0;  // 0: none
};

// Bounded. One thread at a time.
class Queue {
 public:
  explicit Queue(int64_t max_prompts) : max_prompts_(max_prompts) {}

  // ResourceExhausted: full.
  absl::Status Push(const QueuedPrompt& prompt);

  // False when it is not here.
  bool Remove(AttemptId id);

  // Removes what should join what is ahead; see PromptsToTake.
  std::vector<QueuedPrompt> Take(int64_t prompts_ahead, int64_t tokens_ahead);

  // Removes what has passed its deadline.
  std::vector<QueuedPrompt> TakeExpired(int64_t now_ns);

  int64_t size() const { return static_cast<int64_t>(prompts_.size()); }
  int64_t tokens() const { return tokens_; }

 private:
  const int64_t max_prompts_;
  std::deque<QueuedPrompt> prompts_;
  int64_t tokens_ = 0;  // of all prompts
};

}  // namespace anchorage::prefill
