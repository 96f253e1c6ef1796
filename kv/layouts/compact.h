// The compact layout, the one that is served: anchor indices of just enough bits, projection
// lengths in four bits, residuals of two or four bits, those of keys coded after RoPE, so that a
// decode step rotates its query once instead of every residual (K_t = R_t(gamma K_a) + s U^T
// lev(c); AnchorKV, arXiv 2608.02901, eq. 3, with the orthogonal R_t moved inside the code).
#pragma once

#include <vector>

#include "kernels/compact_cache.h"
#include "kv/layouts/layout_writer.h"
#include "kv/layouts/slot_index.h"

namespace anchorage::kv {

class CompactWriter : public LayoutWriter {
 public:
  CompactWriter(const LayerPlan& plan, std::span<std::byte> region, const kernels::RopeView& rope,
                kernels::CodePacking packing);

  void StoreAnchors(Side side, int64_t head, std::span<kernels::Bf16> rows) override;
  void StoreAssignments(Side side, int64_t head, std::span<const uint16_t> idx,
                        std::span<const float> proj) override;
  void LoadAssignments(Side side, int64_t head, int64_t first, std::span<uint16_t> idx,
                       std::span<float> gamma) const override;
  void StoreKeyCode(int64_t head, const kernels::KeyCode& code) override;
  bool StoreResidual(Side side, int64_t head, int64_t slot, int64_t fine_slot, int64_t position,
                     float* residual) override;

 private:
  struct StageSpans {
    std::span<uint8_t> codes;        // [N, D / 4]
    std::span<kernels::Bf16> scale;  // [N]
  };
  struct SideSpans {
    std::span<int8_t> anchors;           // [H, k, D]
    std::span<int8_t> anchor_exponents;  // [H, k]
    std::span<uint8_t> idx;              // [H, IndexRowBytes]
    std::span<uint8_t> proj;             // [H, ProjectionRowBytes]
    std::span<float> proj_level;         // [H, 16]
    StageSpans coarse;
    StageSpans fine;  // empty where no position has a second code
  };

  StageSpans MapStage(std::span<std::byte> region, Side side, Stage stage) const;
  void StoreIndex(SideSpans& spans, int64_t head, int64_t position, uint16_t anchor);

  LayerPlan plan_;
  kernels::RopeView rope_;
  kernels::CodePacking packing_;
  std::vector<uint32_t> pins_;     // 0 .. num_pins - 1
  std::span<uint8_t> pair_order_;  // [H, D / 2]
  std::span<float> key_gain_;      // [H, 2]
  SideSpans sides_[2];
};

// Anchor index of a position.
inline uint16_t CompactIndex(const LayerPlan& plan, std::span<const uint8_t> idx, int64_t head,
                             int64_t position) {
  const int64_t row = head * kernels::IndexRowBytes(plan.prefix_len(), plan.num_anchors);
  return kernels::LoadIndex(idx.data() + row, kernels::IndexBits(plan.num_anchors), position);
}

// How the keys of a head with one code are coded.
inline kernels::KeyCode CompactKeyCode(const LayerPlan& plan, std::span<const uint8_t> pair_order,
                                       std::span<const float> key_gain, int64_t head) {
  return {static_cast<int>(plan.head_dim), &pair_order[head * plan.head_dim / 2],
          &key_gain[head * 2]};
}

// Projection length of a position.
inline float CompactProjection(const LayerPlan& plan, std::span<const uint8_t> proj,
                               std::span<const float> levels, int64_t head, int64_t position) {
  const int64_t row = head * kernels::ProjectionRowBytes(plan.prefix_len());
  const uint8_t code = kernels::LoadProjection(proj.data() + row, position);
  return levels[static_cast<size_t>(head * kernels::kNumProjectionLevels + code)];
}

}  // namespace anchorage::kv
