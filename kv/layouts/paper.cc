#include "kv/layouts/paper.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/compact_cache.h"
#include "kv/layouts/anchor_row.h"

namespace anchorage::kv {

PaperWriter::PaperWriter(const LayerPlan& plan, std::span<std::byte> region) : plan_(plan) {
  anchor_pos_ = TensorSpan<int64_t>(plan_, region, "anchor_pos");
  slot_pos_v_ = TensorSpan<uint8_t>(plan_, region, "slot_pos_v");
  const std::span<int32_t> token_pos = TensorSpan<int32_t>(plan_, region, "token_pos");
  std::iota(token_pos.begin(), token_pos.end(), 0);
  for (const Side side : kSides) {
    SideSpans& spans = sides_[static_cast<int>(side)];
    spans.anchors = TensorSpan<kernels::Bf16>(plan_, region, side, "anchor_k", "anchor_v");
    spans.idx = TensorSpan<uint16_t>(plan_, region, side, "idx_k", "idx_v");
    spans.gamma = TensorSpan<kernels::Bf16>(plan_, region, side, "gamma_k", "gamma_v");
    spans.codes = TensorSpan<uint8_t>(plan_, region, side, "codes_k", "codes_v");
    spans.scale = TensorSpan<float>(plan_, region, side, "scale_k", "scale_v");
  }
}

void PaperWriter::StorePositions(int64_t head, std::span<const uint32_t> positions) {
  std::copy(positions.begin(), positions.end(),
            anchor_pos_.begin() + head * static_cast<int64_t>(positions.size()));
}

void PaperWriter::StoreAnchors(Side side, int64_t head, std::span<kernels::Bf16> rows) {
  std::copy(rows.begin(), rows.end(),
            AnchorRow(plan_, sides_[static_cast<int>(side)].anchors, head, 0));
}

void PaperWriter::StoreAssignments(Side side, int64_t head, std::span<const uint16_t> idx,
                                   std::span<const float> proj) {
  SideSpans& spans = sides_[static_cast<int>(side)];
  std::vector<float> norms(static_cast<size_t>(plan_.num_anchors));
  for (int64_t anchor = 0; anchor < plan_.num_anchors; ++anchor) {
    norms[anchor] = kernels::AnchorNorm(AnchorRow(plan_, spans.anchors, head, anchor),
                                        static_cast<int>(plan_.head_dim));
  }
  const int64_t row = head * plan_.prefix_len();
  for (size_t i = 0; i < idx.size(); ++i) {
    const float norm = norms[idx[i]];
    spans.idx[row + i] = idx[i];
    spans.gamma[row + i] = kernels::ToBf16(norm > 0 ? proj[i] / norm : 0.0f);
  }
  const int64_t selected = plan_.num_anchors - plan_.window_len;
  for (int64_t anchor = 0; anchor < selected; ++anchor) {
    const int64_t position = anchor_pos_[head * selected + anchor];
    spans.idx[row + position] = static_cast<uint16_t>(anchor);
    spans.gamma[row + position] = kernels::ToBf16(1.0f);
  }
}

void PaperWriter::LoadAssignments(Side side, int64_t head, int64_t first, std::span<uint16_t> idx,
                                  std::span<float> gamma) const {
  const SideSpans& spans = sides_[static_cast<int>(side)];
  const int64_t row = head * plan_.prefix_len() + first;
  for (size_t i = 0; i < idx.size(); ++i) {
    idx[i] = spans.idx[row + i];
    gamma[i] = kernels::ToFloat(spans.gamma[row + i]);
  }
}

bool PaperWriter::StoreResidual(Side side, int64_t /*head*/, int64_t slot, int64_t /*fine_slot*/,
                                int64_t position, float* residual) {
  SideSpans& spans = sides_[static_cast<int>(side)];
  const int dim = static_cast<int>(plan_.head_dim);
  kernels::RotateResidual(dim, residual);
  spans.scale[slot] = kernels::EncodeResidual(dim, residual, kernels::CodePacking::kLinear, false,
                                              &spans.codes[slot * (dim / 4)]);
  if (side == Side::kValue) slot_pos_v_[slot] = static_cast<uint8_t>(position & 255);
  return std::isfinite(spans.scale[slot]);
}

}  // namespace anchorage::kv
