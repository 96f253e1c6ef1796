// The samples of a run: which there are, and each one's text at the length that was asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/ruler/prompt_renderer.h"
#include "eval/ruler/sample.h"
#include "eval/ruler/task.h"

namespace anchorage::eval::ruler {

struct RunPlan {
  std::vector<Task> tasks;
  std::vector<int64_t> lengths;  // tokens of prompt and answer
  int64_t samples = 0;           // of each task and length; of the passkey, for each depth too
  int64_t depths = 0;            // of the passkey's grid, from the first to the last sentence
  uint64_t seed = 0;
};

// Every sample of the plan, lengths ascending, the tasks of a length interleaved, so that a run
// that is stopped has something of everything.
std::vector<SampleKey> KeysOf(const RunPlan& plan);

// Writes the sample with the largest haystack that fits the target length, by binary search with
// the model's own tokenizer. Deterministic in the key. InvalidArgument: even an empty haystack is
// too long; the message says how many tokens that takes.
absl::StatusOr<Sample> MakeSample(const SampleKey& key, const PromptRenderer& renderer);

// Whether MakeSample will succeed for all, told by one sample of each task and length, before
// anything is computed. InvalidArgument also: a length beyond `context_length`.
absl::Status CheckLengths(const RunPlan& plan, const PromptRenderer& renderer,
                          int64_t context_length);

}  // namespace anchorage::eval::ruler
