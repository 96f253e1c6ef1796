// SnapKV (arXiv:2404.14469): the observation window and, per KV head, the prefix positions that it
// pays most attention to stay as they are; the others are forgotten. A baseline.
#pragma once

#include "kv/compressor.h"

namespace anchorage::kv {

// Scores as AnchorKV does (kernels/anchor.h, ScorePrefix), pooled over options.pool_width
// positions. Ties: lower position.
class SnapKvCompressor : public LayerCompressor {
 public:
  // `options` are those that the plans are made with.
  explicit SnapKvCompressor(const PlanOptions& options) : options_(options) {}

  const char* name() const override { return "snapkv"; }
  int64_t WorkspaceBytes(const LayerPlan& plan, int num_q_heads, int num_threads) const override;
  absl::StatusOr<CompressedLayer> Compress(const LayerKv& layer,
                                           const kernels::ObservedRowsView& observed,
                                           const LayerPlan& plan, kernels::CodePacking packing,
                                           Workspace& workspace,
                                           kernels::Stream& stream) const override;

 private:
  PlanOptions options_;
};

}  // namespace anchorage::kv
