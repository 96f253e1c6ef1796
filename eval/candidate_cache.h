// One way to keep a prompt's KV cache, under test: it is filled layer by layer as in serving and
// then decoded over as in serving. The paper's layout, which is never served, is decoded over
// densely, from what it reconstructs to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "decode_node/core/arena.h"
#include "decode_node/core/sequence.h"
#include "kernels/observed_rows.h"
#include "kernels/stream.h"
#include "kv/compressor.h"
#include "kv/plan/plan.h"
#include "model/model.h"

namespace anchorage::eval {

class CandidateCache {
 public:
  // Sets the memory aside for a prompt of `seq_len` and `max_new` tokens after it. `arena` must
  // outlive it. InvalidArgument: the plan makes no sense. ResourceExhausted: no memory.
  static absl::StatusOr<CandidateCache> Create(const model::Model& model,
                                               const kv::PlanOptions& options, int64_t seq_len,
                                               int64_t max_new, decode::Arena& arena);

  // Compresses a finished layer, verifies the result and keeps it.
  absl::Status TakeLayer(const kv::LayerKv& layer, const kernels::ObservedRowsView& observed,
                         kernels::Stream& stream);

  // All layers are there: a sequence whose next input is `token`, at position seq_len.
  decode::Sequence& Join(int32_t token);

  const kv::PlanOptions& options() const { return options_; }
  // Exact bytes of the prompt's cache as it would travel, without padding.
  int64_t bytes() const { return plan_.prompt_bytes; }
  // Bytes of the dense bf16 cache over those.
  double ratio() const {
    return static_cast<double>(plan_.full_bytes) / static_cast<double>(plan_.prompt_bytes);
  }

 private:
  CandidateCache(const kv::PlanOptions& options, kv::RequestPlan plan,
                 std::shared_ptr<decode::Grant> memory, int64_t max_new);

  absl::Status StoreReconstructed(const kv::CompressedLayer& layer, const kernels::RopeView& rope);

  kv::PlanOptions options_;
  kv::RequestPlan plan_;
  std::shared_ptr<decode::Grant> memory_;  // as it is decoded over
  int64_t max_new_;
  std::unique_ptr<kv::LayerCompressor> compressor_;
  kv::Workspace workspace_;
  std::unique_ptr<decode::Sequence> sequence_;
};

}  // namespace anchorage::eval
