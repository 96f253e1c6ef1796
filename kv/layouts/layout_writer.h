// How a layout stores what the compressor decides. The compressor is the same for the compact and
// the paper layout; what differs is here: widths, gamma against projection, and the frame in which
// key residuals are coded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/key_code.h"
#include "kernels/residual.h"
#include "kernels/types.h"
#include "kv/plan/plan.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {

// Writes into one region. Calls for different heads and slots may run on different threads. A
// head's anchors must be stored before its assignments.
class LayoutWriter {
 public:
  virtual ~LayoutWriter() = default;

  // Where the anchors before the window of a head came from, ascending: only where the layout
  // stores that.  positions [k - W]
  virtual void StorePositions(int64_t /*head*/, std::span<const uint32_t> /*positions*/) {}

  // The anchors of a head, the window last; each row is replaced by what a decoder will have.
  //   rows [k, D]
  virtual void StoreAnchors(Side side, int64_t head, std::span<kernels::Bf16> rows) = 0;

  // What AssignAnchors answered for a head: idx [P], proj [P] with <x, x_a>/|x_a|. Positions whose
  // row is an anchor are made to point at it with gamma 1.
  virtual void StoreAssignments(Side side, int64_t head, std::span<const uint16_t> idx,
                                std::span<const float> proj) = 0;

  // The same after rounding: the anchor index and the gamma that a decoder will use, for positions
  // first .. first + idx.size() - 1.
  virtual void LoadAssignments(Side side, int64_t head, int64_t first, std::span<uint16_t> idx,
                               std::span<float> gamma) const = 0;

  // How the keys of a head are coded, where the layout stores that. Before its residuals.
  virtual void StoreKeyCode(int64_t /*head*/, const kernels::KeyCode& /*code*/) {}

  // Codes the residual of a position into its slot, and with twice the bits where it has a fine
  // slot too (-1: none). False when a scale is not finite.
  //   residual [D] before RoPE; overwritten
  virtual bool StoreResidual(Side side, int64_t head, int64_t slot, int64_t fine_slot,
                             int64_t position, float* residual) = 0;
};

// `region` and `rope` must outlive the writer. `packing` is ignored by the paper layout, which is
// always kLinear. Precondition: plan.layout is kCompact or kPaper.
std::unique_ptr<LayoutWriter> MakeLayoutWriter(const LayerPlan& plan, std::span<std::byte> region,
                                               const kernels::RopeView& rope,
                                               kernels::CodePacking packing);

}  // namespace anchorage::kv
