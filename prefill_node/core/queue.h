// Prompts that wait for their prefill: first in, first out, bounded, each with a deadline.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "model/sampler.h"
#include "prefill_node/core/batching.h"

namespace anchorage::prefill {

struct QueuedPrompt {
  AttemptId id;
  std::string request_id;  // for logs
  std::vector<int32_t> prompt_ids;
  int64_t max_new = 0;
  model::SamplingParams sampling;
  int64_t deadline_ns = 0;  // of the queue's clock; 0: none
  int64_t enqueued_ns = 0;  // set by Push
};

struct QueueLimits {
  int64_t max_prompts = 256;
  int64_t max_tokens = int64_t{1} << 20;  // one prompt is always taken into an empty queue
};

struct QueueDepth {
  int64_t prompts = 0;
  int64_t tokens = 0;
};

// Thread-safe. `clock` must outlive it.
class PromptQueue {
 public:
  PromptQueue(const QueueLimits& limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  // ResourceExhausted: full. DeadlineExceeded: its time is over already. InvalidArgument: an
  // attempt of that id waits already.
  absl::Status Push(QueuedPrompt prompt);

  // Takes the attempt out. False: it does not wait here.
  bool Remove(AttemptId id);

  // Takes out everyone whose deadline has passed.
  std::vector<QueuedPrompt> TakeExpired();

  // Takes the next batch out, which may be empty. Prompts whose deadline has passed stay for
  // TakeExpired.
  std::vector<QueuedPrompt> TakeBatch(const BatchLimits& limits);
  // Likewise, passing by every long prompt.
  std::vector<QueuedPrompt> TakeShortBatch(const BatchLimits& limits);

  QueueDepth depth() const;

 private:
  bool Expired(const QueuedPrompt& prompt) const;
  std::vector<QueuedPrompt> Take(const BatchLimits& limits, int64_t max_tokens_each)
      REQUIRES(mutex_);

  const QueueLimits limits_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::deque<QueuedPrompt> waiting_ GUARDED_BY(mutex_);
  int64_t tokens_ GUARDED_BY(mutex_) = 0;
};

}  // namespace anchorage::prefill
