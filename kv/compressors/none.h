// Keeps every token: bf16 K after RoPE and V. What `--kv none` serves, and what becomes of prompts
// too short to compress.
#pragma once

#include "kv/compressor.h"

namespace anchorage::kv {

class NoneCompressor : public LayerCompressor {
 public:
  const char* name() const override { return "none"; }
  int64_t WorkspaceBytes(const LayerPlan& plan, int num_q_heads, int num_threads) const override;
  absl::StatusOr<CompressedLayer> Compress(const LayerKv& layer,
                                           const kernels::ObservedRowsView& observed,
                                           const LayerPlan& plan, kernels::CodePacking packing,
                                           Workspace& workspace,
                                           kernels::Stream& stream) const override;
};

}  // namespace anchorage::kv
