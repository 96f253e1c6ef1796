// The compact layout, the one that is served: byte-wide anchor indices, projection lengths in eight
// bits and key residuals coded after RoPE, so that a decode step rotates its query once instead of
// every residual (K_t = R_t(gamma K_a) + s U^T lev(c); AnchorKV, arXiv 2608.02901, eq. 3, with the
// orthogonal R_t moved inside the code).
#pragma once

#include "kv/layouts/layout_writer.h"
#include "kv/layouts/slot_index.h"

namespace anchorage::kv {

class CompactWriter : public LayoutWriter {
 public:
  CompactWriter(const LayerPlan& plan, std::span<std::byte> region, const kernels::RopeView& rope,
                kernels::CodePacking packing);

  void StorePositions(int64_t head, std::span<const uint32_t> positions) override;
  void StoreAssignments(Side side, int64_t head, std::span<const uint16_t> idx,
                        std::span<const float> proj) override;
  void LoadAssignments(Side side, int64_t head, int64_t first, std::span<uint16_t> idx,
                       std::span<float> gamma) const override;
  bool StoreResidual(Side side, int64_t slot, int64_t position, float* residual) override;

 private:
  struct SideSpans {
    std::span<const kernels::Bf16> anchors;  // [H, k, D]
    std::span<uint8_t> idx;                  // [H, P]
    std::span<uint64_t> idx_high;            // [H, num_words] or empty
    std::span<int8_t> proj;                  // [H, P]
    std::span<float> proj_step;              // [H]
    std::span<uint8_t> codes;                // [N, D / 4]
    std::span<kernels::Bf16> scale;          // [N]
  };

  void StoreIndex(SideSpans& spans, int64_t head, int64_t position, uint16_t anchor);
  std::span<const uint32_t> Positions(int64_t head) const;

  LayerPlan plan_;
  kernels::RopeView rope_;
  kernels::CodePacking packing_;
  std::span<uint32_t> anchor_pos_;  // [H, k - W]
  SideSpans sides_[2];
};

// Anchor index of a position, from the low bytes and the plane of ninth bits (may be empty).
inline uint16_t CompactIndex(const LayerPlan& plan, std::span<const uint8_t> idx,
                             std::span<const uint64_t> idx_high, int64_t head, int64_t position) {
  const uint16_t low = idx[head * plan.prefix_len() + position];
  if (idx_high.empty()) return low;
  const uint64_t word = idx_high[head * plan.num_words() + position / 64];
  return static_cast<uint16_t>(low | ((word >> (position % 64) & 1) << 8));
}

}  // namespace anchorage::kv
