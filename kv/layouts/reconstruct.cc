#include "kv/layouts/reconstruct.h"

#include <array>
#include <cmath>

#include "common/status.h"
#include "kernels/compact_cache.h"
#include "kv/layouts/anchor_row.h"
#include "kv/layouts/compact.h"
#include "kv/layouts/slot_index.h"
#include "kv/rotate_row.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {
namespace {

class Decoder {
 public:
  Decoder(const LayerPlan& plan, std::span<const std::byte> region, const kernels::RopeView& rope,
          kernels::CodePacking packing)
      : plan_(plan), region_(region), rope_(rope), packing_(packing) {}

  // One side, [H, rows, D].
  std::vector<float> Decode(Side side) const {
    std::vector<float> rows(
        static_cast<size_t>(plan_.num_kv_heads * plan_.num_rows() * plan_.head_dim));
    if (plan_.layout == Layout::kDense) {
      CopyRow(TensorSpan<const kernels::Bf16>(plan_, region_, side, "k", "v").data(), 1.0f,
              static_cast<int64_t>(rows.size()), rows.data());
      return rows;
    }
    if (EvictsPositions(plan_.layout)) {
      CopyRow(
          TensorSpan<const kernels::Bf16>(plan_, region_, side, "retained_k", "retained_v").data(),
          1.0f, static_cast<int64_t>(rows.size()), rows.data());
      return rows;
    }
    float* row = rows.data();
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      for (int64_t position = 0; position < plan_.seq_len; ++position, row += plan_.head_dim) {
        DecodeRow(side, head, position, row);
      }
    }
    return rows;
  }

 private:
  void DecodeRow(Side side, int64_t head, int64_t position, float* row) const {
    const bool in_window = position >= plan_.prefix_len();
    const Term term = in_window ? Term{plan_.num_anchors - (plan_.seq_len - position), 1.0f}
                                : PrefixTerm(side, head, position);
    std::array<kernels::Bf16, kMaxHeadDim> anchor;
    LoadAnchor(plan_, region_, side, head, term.anchor, anchor.data());
    CopyRow(anchor.data(), term.gamma, plan_.head_dim, row);

    const bool coded_before_rope = plan_.layout == Layout::kPaper;
    if (!in_window && coded_before_rope) AddResidual(side, head, position, row);
    if (side == Side::kKey) RotateRow(rope_, position, row);
    if (!in_window && !coded_before_rope) AddResidual(side, head, position, row);
  }

  // gamma x_a: what stands for a prefix position before its residual.
  struct Term {
    int64_t anchor = 0;
    float gamma = 0;
  };

  Term PrefixTerm(Side side, int64_t head, int64_t position) const {
    if (plan_.layout == Layout::kPaper) {
      const int64_t at = head * plan_.prefix_len() + position;
      const auto idx = TensorSpan<const uint16_t>(plan_, region_, side, "idx_k", "idx_v");
      const auto gamma =
          TensorSpan<const kernels::Bf16>(plan_, region_, side, "gamma_k", "gamma_v");
      return {idx[at], kernels::ToFloat(gamma[at])};
    }
    const auto idx = TensorSpan<const uint8_t>(plan_, region_, side, "idx_k", "idx_v");
    const auto proj = TensorSpan<const uint8_t>(plan_, region_, side, "proj_k", "proj_v");
    const auto levels =
        TensorSpan<const float>(plan_, region_, side, "proj_level_k", "proj_level_v");
    const int64_t anchor = CompactIndex(plan_, idx, head, position);
    if (position < plan_.num_pins) return {position, 1.0f};
    std::array<kernels::Bf16, kMaxHeadDim> anchor_row;
    LoadAnchor(plan_, region_, side, head, anchor, anchor_row.data());
    const float inverse_norm =
        kernels::InverseNorm(anchor_row.data(), static_cast<int>(plan_.head_dim));
    return {anchor, kernels::CompactGamma(CompactProjection(plan_, proj, levels, head, position),
                                          inverse_norm)};
  }

  // row += what each code that the position has stands for.
  void AddResidual(Side side, int64_t head, int64_t position, float* row) const {
    const int64_t slot = MapSlots(plan_, region_, side).SlotOf(head, position);
    const int64_t fine_slot = MapSlots(plan_, region_, side, Stage::kFine).SlotOf(head, position);
    if (slot >= 0 && fine_slot < 0 && side == Side::kKey && plan_.layout == Layout::kCompact) {
      AddKeyCode(head, slot, row);
      return;
    }
    if (slot >= 0) AddCode(side, Stage::kCoarse, slot, row);
    if (fine_slot >= 0) AddCode(side, Stage::kFine, fine_slot, row);
  }

  // row += s T^T M^T lev(c) (kernels/key_code.h).
  void AddKeyCode(int64_t head, int64_t slot, float* row) const {
    const kernels::KeyCode code =
        CompactKeyCode(plan_, TensorSpan<const uint8_t>(plan_, region_, "pair_order_k"),
                       TensorSpan<const float>(plan_, region_, "key_gain_k"), head);
    const auto codes =
        TensorSpan<const uint8_t>(plan_, region_, NamesOf(Side::kKey, Stage::kCoarse).codes);
    std::array<float, kMaxHeadDim> residual;
    kernels::DecodeKey(code, &codes[slot * (plan_.head_dim / 4)],
                       Scale(Side::kKey, Stage::kCoarse, slot), packing_, residual.data());
    for (int64_t d = 0; d < plan_.head_dim; ++d) row[d] += residual[d];
  }

  // row += s U^T lev(c).

  void AddCode(Side side, Stage stage, int64_t slot, float* row) const {
    const int dim = static_cast<int>(plan_.head_dim);
    const auto codes = TensorSpan<const uint8_t>(plan_, region_, NamesOf(side, stage).codes);
    std::vector<float> residual(static_cast<size_t>(dim));
    kernels::DecodeResidual(dim, &codes[slot * (dim / 4)], Scale(side, stage, slot), packing_,
                            residual.data());
    kernels::UnrotateResidual(dim, residual.data());
    for (int i = 0; i < dim; ++i) row[i] += residual[i];
  }

  float Scale(Side side, Stage stage, int64_t slot) const {
    const char* name = NamesOf(side, stage).scale;
    if (plan_.layout == Layout::kPaper) {
      return TensorSpan<const float>(plan_, region_, name)[slot];
    }
    return kernels::ToFloat(TensorSpan<const kernels::Bf16>(plan_, region_, name)[slot]);
  }

  static void CopyRow(const kernels::Bf16* from, float factor, int64_t count, float* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = factor * kernels::ToFloat(from[i]);
  }

  const LayerPlan& plan_;
  std::span<const std::byte> region_;
  const kernels::RopeView& rope_;
  kernels::CodePacking packing_;
};

}  // namespace

absl::StatusOr<ReconstructedLayer> ReconstructLayer(const LayerPlan& plan,
                                                    std::span<const std::byte> region,
                                                    const kernels::RopeView& rope,
                                                    kernels::CodePacking packing) {
  if (static_cast<int64_t>(region.size()) != plan.region_bytes) {
    return Invalid("a region of %d bytes where the plan has %d", region.size(), plan.region_bytes);
  }
  if (rope.head_dim != plan.head_dim || rope.num_positions < plan.seq_len) {
    return Invalid("the RoPE table has %d positions of %d, the layer needs %d of %d",
                   rope.num_positions, rope.head_dim, plan.seq_len, plan.head_dim);
  }
  const bool linear = plan.layout == Layout::kPaper;
  const Decoder decoder(plan, region, rope, linear ? kernels::CodePacking::kLinear : packing);
  return ReconstructedLayer{decoder.Decode(Side::kKey), decoder.Decode(Side::kValue)};
}

}  // namespace anchorage::kv
