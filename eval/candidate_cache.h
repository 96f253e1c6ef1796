// One way to keep a prompt's KV cache, under test: it is filled layer by layer as in serving and
// then decoded over as in serving. What is never served, the paper's layout and every ablation, is
// decoded over densely, from what it reconstructs to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "decode_node/core/arena.h"
#include "decode_node/core/sequence.h"
#include "eval/ablation/ablation.h"
#include "kernels/observed_rows.h"
#include "kernels/stream.h"
#include "kv/compressor.h"
#include "kv/layouts/reconstruct.h"
#include "kv/plan/plan.h"
#include "kv/tensor_span.h"
#include "model/model.h"

namespace anchorage::eval {

struct AblatedLayer;

class CandidateCache {
 public:
  // Sets the memory aside for a prompt of `seq_len` and `max_new` tokens after it. `arena` must
  // outlive it. With an ablation, `options` are the served ones that it starts from, of layout
  // kCompact. InvalidArgument: the plan makes no sense. ResourceExhausted: no memory.
  static absl::StatusOr<CandidateCache> Create(
      const model::Model& model, const kv::PlanOptions& options, int64_t seq_len, int64_t max_new,
      decode::Arena& arena, const std::optional<Ablation>& ablation = std::nullopt);

  // Compresses a finished layer, verifies the result and keeps it. `observed`: at least the rows of
  // this cache's own window.
  absl::Status TakeLayer(const kv::LayerKv& layer, const kernels::ObservedRowsView& observed,
                         kernels::Stream& stream);

  // All layers are there: a sequence whose next input is `token`, at position seq_len.
  decode::Sequence& Join(int32_t token);

  // A layer that was taken, as it is decoded over.
  const kv::LayerPlan& decoded_plan(int layer) const {
    return memory_->plan().layers[static_cast<size_t>(layer)];
  }
  std::span<const std::byte> decoded_region(int layer) const { return memory_->region(layer); }

  // Share of the prompt's positions that have a residual, of each KV head, of an ablation's as of a
  // served cache's; 0 in a layer that was not taken yet or whose layout has no residuals.
  std::span<const float> residual_shares(int layer, kv::Side side) const {
    return shares_[static_cast<size_t>(layer)][static_cast<size_t>(side)];
  }

  const kv::PlanOptions& options() const { return options_; }
  // Exact bytes of the prompt's cache as it would travel, without padding.
  int64_t bytes() const { return plan_.prompt_bytes; }
  // Bytes of the dense bf16 cache over those.
  double ratio() const {
    return static_cast<double>(plan_.full_bytes) / static_cast<double>(plan_.prompt_bytes);
  }

 private:
  CandidateCache(const kv::PlanOptions& options, const std::optional<Ablation>& ablation,
                 kv::RequestPlan plan, std::shared_ptr<decode::Grant> memory, int64_t max_new);

  void CountResiduals(const kv::CompressedLayer& layer);
  void CountResiduals(int layer, const AblatedLayer& ablated);
  absl::Status StoreReconstructed(const kv::CompressedLayer& layer, const kernels::RopeView& rope);
  void StoreRows(int layer, const kv::ReconstructedLayer& rows);

  kv::PlanOptions options_;
  std::optional<Ablation> ablation_;
  kv::RequestPlan plan_;
  std::shared_ptr<decode::Grant> memory_;  // as it is decoded over
  int64_t max_new_;
  std::unique_ptr<kv::LayerCompressor> compressor_;
  kv::Workspace workspace_;
  std::unique_ptr<decode::Sequence> sequence_;
  std::vector<std::array<std::vector<float>, 2>> shares_;  // [layer][side][H]
};

}  // namespace anchorage::eval
