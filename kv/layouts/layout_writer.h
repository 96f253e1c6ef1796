// How a layout stores what the compressor decides. The compressor is the same for the compact and
// the paper layout; what differs is here: widths, gamma against projection, and the frame in which
// key residuals are coded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/residual.h"
#include "kernels/types.h"
#include "kv/plan/plan.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {

// Writes into one region. Calls for different heads and slots may run on different threads. Anchors
// (the tensors anchor_k and anchor_v) must be in the region before assignments are stored.
class LayoutWriter {
 public:
  virtual ~LayoutWriter() = default;

  // The selected anchors of a head, ascending.  positions [k - W]
  virtual void StorePositions(int64_t head, std::span<const uint32_t> positions) = 0;

  // What AssignAnchors answered for a head: idx [P], proj [P] with <x, x_a>/|x_a|. Positions that
  // are anchors themselves are made to point at themselves with gamma 1.
  virtual void StoreAssignments(Side side, int64_t head, std::span<const uint16_t> idx,
                                std::span<const float> proj) = 0;

  // The same after rounding: the anchor index and the gamma that a decoder will use, for positions
  // first .. first + idx.size() - 1.
  virtual void LoadAssignments(Side side, int64_t head, int64_t first, std::span<uint16_t> idx,
                               std::span<float> gamma) const = 0;

  // Codes the residual of a position into its slot, and with twice the bits where it has a fine
  // slot too (-1: none). False when a scale is not finite.
  //   residual [D] before RoPE; overwritten
  virtual bool StoreResidual(Side side, int64_t slot, int64_t fine_slot, int64_t position,
                             float* residual) = 0;
};

// `region` and `rope` must outlive the writer. `packing` is ignored by the paper layout, which is
// always kLinear. Precondition: plan.layout is kCompact or kPaper.
std::unique_ptr<LayoutWriter> MakeLayoutWriter(const LayerPlan& plan, std::span<std::byte> region,
                                               const kernels::RopeView& rope,
                                               kernels::CodePacking packing);

}  // namespace anchorage::kv
