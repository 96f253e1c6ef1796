// The paper's own layout (AnchorKV, arXiv 2608.02901, eqs. 9 and 13): for conformance and
// comparison, never served. Sixteen-bit indices and gamma, 64-bit positions, fp32 scales, key
// residuals coded before RoPE: K_t = R_t(gamma K_a + s U^T lev(c)).
#pragma once

#include "kv/layouts/layout_writer.h"

namespace anchorage::kv {

class PaperWriter : public LayoutWriter {
 public:
  PaperWriter(const LayerPlan& plan, std::span<std::byte> region);

  void StorePositions(int64_t head, std::span<const uint32_t> positions) override;
  void StoreAnchors(Side side, int64_t head, std::span<kernels::Bf16> rows) override;
  void StoreAssignments(Side side, int64_t head, std::span<const uint16_t> idx,
                        std::span<const float> proj) override;
  void LoadAssignments(Side side, int64_t head, int64_t first, std::span<uint16_t> idx,
                       std::span<float> gamma) const override;
  bool StoreResidual(Side side, int64_t head, int64_t slot, int64_t fine_slot, int64_t position,
                     float* residual) override;

 private:
  struct SideSpans {
    std::span<kernels::Bf16> anchors;  // [H, k, D]
    std::span<uint16_t> idx;           // [H, P]
    std::span<kernels::Bf16> gamma;    // [H, P]
    std::span<uint8_t> codes;          // [N, D / 4]
    std::span<float> scale;            // [N]
  };

  LayerPlan plan_;
  std::span<int64_t> anchor_pos_;  // [H, k - W]
  std::span<uint8_t> slot_pos_v_;  // [N_V] position & 255
  SideSpans sides_[2];
};

}  // namespace anchorage::kv
