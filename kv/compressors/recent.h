// StreamingLLM (arXiv:2309.17453): the first positions (attention sinks) and the last ones stay as
// they are; what lies between is forgotten. A baseline. Keys keep the rotation of the positions
// they had, where the paper renumbers them inside the cache: no context here is longer than the
// model's.
#pragma once

#include "kv/compressor.h"

namespace anchorage::kv {

class RecentCompressor : public LayerCompressor {
 public:
  const char* name() const override { return "recent"; }
  int64_t WorkspaceBytes(const LayerPlan& plan, int num_q_heads, int num_threads) const override;
  absl::StatusOr<CompressedLayer> Compress(const LayerKv& layer,
                                           const kernels::ObservedRowsView& observed,
                                           const LayerPlan& plan, kernels::CodePacking packing,
                                           Workspace& workspace,
                                           kernels::Stream& stream) const override;
};

}  // namespace anchorage::kv
