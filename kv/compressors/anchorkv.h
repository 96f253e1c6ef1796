// AnchorKV (arXiv 2608.02901): every position stays, most of them as a multiple of the nearest
// anchor, the most useful ones with a residual of 2 or 4 bits. Fills the compact and the
// paper layout.
#pragma once

#include "kv/compressor.h"

namespace anchorage::kv {

class AnchorKvCompressor : public LayerCompressor {
 public:
  // `options` are those that the plans are made with.
  explicit AnchorKvCompressor(const PlanOptions& options) : options_(options) {}

  const char* name() const override { return "anchorkv"; }
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
