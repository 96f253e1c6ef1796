// Asks every sample of a plan whose answer is not there yet.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "eval/report/progress.h"
#include "eval/ruler/answerer.h"
#include "eval/ruler/prompt_renderer.h"
#include "eval/ruler/result_store.h"
#include "eval/ruler/sample.h"

namespace anchorage::eval::ruler {

// The work of a run as Progress counts it: prompt tokens.
int64_t WorkOf(const std::vector<SampleKey>& keys);

// Stops at the first error; what was answered until then is in the store, and the same call goes on
// behind it. FailedPrecondition: the store has answers to other prompts, or from other settings,
// under these names, such as those of another model. Other errors as MakeSample, Answerer::Ask and
// ResultStore::Append.
absl::Status AskAll(const std::vector<SampleKey>& keys, const PromptRenderer& renderer,
                    Answerer& answerer, ResultStore& store, Progress& progress);

}  // namespace anchorage::eval::ruler
