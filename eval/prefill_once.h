// One layer-major prefill (TideKV, arXiv 2610.24499, Algorithm 1) that fills several candidate
// caches at each layer's end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/candidate_cache.h"
#include "kernels/observed_rows.h"
#include "kernels/stream.h"
#include "kv/compressor.h"
#include "model/model.h"

namespace anchorage::eval {

// Looks at each layer of a prefill after all caches have taken it.
class LayerWitness {
 public:
  virtual ~LayerWitness() = default;

  // Rows of the prompt's end that it wants to see observed.
  virtual int64_t window_len() const { return 0; }

  // `observed`: the prompt's last rows, as many as the widest window asked for. `following`: the
  // rows of all tokens behind the prompt, which attended to everything before them uncompressed.
  // All are gone when it returns. An error ends the prefill.
  virtual absl::Status OnLayer(const kv::LayerKv& layer, const kernels::ObservedRowsView& observed,
                               const kernels::ObservedRowsView& following,
                               kernels::Stream& stream) = 0;
};

// Runs ids[0 .. seq_len) through the model and gives each layer to every cache. The ids after
// seq_len run along behind the prompt, seen by no cache but by `witness`, which may be null.
// Returns their logits, [ids.size() - seq_len, vocab]: what an uncompressed prefill answers at the
// positions that a decode step then has to answer from its cache.
absl::StatusOr<std::vector<float>> PrefillOnce(const model::Model& model,
                                               std::span<const int32_t> ids, int64_t seq_len,
                                               std::span<CandidateCache> caches,
                                               kernels::Stream& stream,
                                               LayerWitness* witness = nullptr);

// The same for a prompt that nothing runs along behind: returns the logits of its last position,
// [vocab], from which serving picks the first token.
absl::StatusOr<std::vector<float>> PrefillPrompt(const model::Model& model,
                                                 std::span<const int32_t> ids,
                                                 std::span<CandidateCache> caches,
                                                 kernels::Stream& stream);

}  // namespace anchorage::eval
