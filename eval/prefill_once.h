// One layer-major prefill (TideKV, arXiv 2610.24499, Algorithm 1) that fills several candidate
// caches at each layer's end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/candidate_cache.h"
#include "kernels/stream.h"
#include "model/model.h"

namespace anchorage::eval {

// Runs ids[0 .. seq_len) through the model and gives each layer to every cache. The ids after
// seq_len run along behind the prompt, seen by no cache.
// Returns their logits, [ids.size() - seq_len, vocab]: what an uncompressed prefill answers at the
// positions that a decode step then has to answer from its cache.
absl::StatusOr<std::vector<float>> PrefillOnce(const model::Model& model,
                                               std::span<const int32_t> ids, int64_t seq_len,
                                               std::span<CandidateCache> caches,
                                               kernels::Stream& stream);

}  // namespace anchorage::eval
