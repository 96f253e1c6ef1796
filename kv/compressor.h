// The seam between the schedule and what becomes of a layer's cache (TideKV, arXiv 2610.24499,
// Algorithm 1: "compress the layer, commit, release").
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/aligned_buffer.h"
#include "kernels/observed_rows.h"
#include "kernels/residual.h"
#include "kernels/stream.h"
#include "kv/compressed_layer.h"
#include "kv/plan/plan.h"

namespace anchorage::kv {

// The layer that just ended, uncompressed.
struct LayerKv {
  int layer = 0;
  kernels::ActiveKvView kv;  // K before RoPE and V, bf16 [H, capacity, D]
  kernels::RopeView rope;
};

// Temporaries of a compression, kept between layers: at most 18 H (P + 16) bytes of scalars beside
// the layer's own output (a utility and an energy for each position and side, and blocks of both),
// the anchors and the rows that they are fitted to.
// Grows to what WorkspaceBytes says and is counted by the accountant.
class Workspace {
 public:
  // At least `bytes`, aligned to 64; contents undefined. ResourceExhausted when the system has
  // none.
  absl::StatusOr<std::byte*> Reserve(int64_t bytes);
  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }
  void Release() { buffer_ = AlignedBuffer(); }

 private:
  AlignedBuffer buffer_;
};

// Stateless and thread-safe apart from the workspace. The result is the same bytes for any number
// of threads.
class LayerCompressor {
 public:
  virtual ~LayerCompressor() = default;
  virtual const char* name() const = 0;

  // Bytes that Compress asks of the workspace for this plan.
  virtual int64_t WorkspaceBytes(const LayerPlan& plan, int num_q_heads, int num_threads) const = 0;

  // `packing` is what the receiving kernels read. InvalidArgument: NaN or Inf in K or V, with layer
  // and position; a plan that does not fit the layer. ResourceExhausted: no memory.
  virtual absl::StatusOr<CompressedLayer> Compress(
      const LayerKv& layer, const kernels::ObservedRowsView& observed, const LayerPlan& plan,
      kernels::CodePacking packing, Workspace& workspace, kernels::Stream& stream) const = 0;
};

// The compressor that fills plans of these options: "anchorkv", "snapkv", "recent" or "none". A
// compressed plan whose layer is dense (a short prompt) passes through.
std::unique_ptr<LayerCompressor> MakeCompressor(const PlanOptions& options);

}  // namespace anchorage::kv
