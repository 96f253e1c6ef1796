// Why a generation ends, decided the same way for the first token (prefill) and the rest (decode).
#pragma once

#include <cstdint>
#include <span>

#include "model/sampler.h"

namespace anchorage::model {

enum class Finish : uint8_t { kNone = 0, kStop = 1, kLength = 2 };

// After `token` was picked as the `count`-th generated token (1 = the first) of at most `max_new`.
inline Finish FinishAfter(const SamplingParams& params, std::span<const int32_t> model_stop_ids,
                          int32_t token, int64_t count, int64_t max_new) {
  if (EndsGeneration(params, model_stop_ids, token)) return Finish::kStop;
  return count >= max_new ? Finish::kLength : Finish::kNone;
}

}  // namespace anchorage::model
