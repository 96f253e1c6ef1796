#include "kv/layouts/compact.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kv/layouts/anchor_row.h"
#include "kv/layouts/projection_levels.h"
#include "kv/rotate_row.h"

namespace anchorage::kv {
CompactWriter::CompactWriter(const LayerPlan& plan, std::span<std::byte> region,
                             const kernels::RopeView& rope, kernels::CodePacking packing)
    : plan_(plan), rope_(rope), packing_(packing) {
  anchor_pos_ = TensorSpan<uint32_t>(plan_, region, "anchor_pos");
  for (const Side side : kSides) {
    SideSpans& spans = sides_[static_cast<int>(side)];
    spans.anchors = TensorSpan<const kernels::Bf16>(plan_, region, side, "anchor_k", "anchor_v");
    spans.idx = TensorSpan<uint8_t>(plan, region, side, "idx_k", "idx_v");
    spans.proj = TensorSpan<uint8_t>(plan, region, side, "proj_k", "proj_v");
    spans.proj_level = TensorSpan<float>(plan, region, side, "proj_level_k", "proj_level_v");
    spans.coarse = MapStage(region, side, Stage::kCoarse);
    spans.fine = MapStage(region, side, Stage::kFine);
  }
}

CompactWriter::StageSpans CompactWriter::MapStage(std::span<std::byte> region, Side side,
                                                  Stage stage) const {
  const StageNames& names = NamesOf(side, stage);
  return {TensorSpan<uint8_t>(plan_, region, names.codes),
          TensorSpan<kernels::Bf16>(plan_, region, names.scale)};
}

std::span<const uint32_t> CompactWriter::Positions(int64_t head) const {
  const int64_t selected = plan_.num_anchors - plan_.window_len;
  return std::span<const uint32_t>(anchor_pos_)
      .subspan(static_cast<size_t>(head * selected), static_cast<size_t>(selected));
}

void CompactWriter::StorePositions(int64_t head, std::span<const uint32_t> positions) {
  std::copy(positions.begin(), positions.end(),
            anchor_pos_.begin() + head * static_cast<int64_t>(positions.size()));
}

void CompactWriter::StoreIndex(SideSpans& spans, int64_t head, int64_t position, uint16_t anchor) {
  const int bits = kernels::IndexBits(plan_.num_anchors);
  const int64_t group = position / kernels::kIndexGroup;
  const int first_bit = static_cast<int>(position % kernels::kIndexGroup) * bits;
  uint8_t* byte = &spans.idx[head * kernels::IndexRowBytes(plan_.prefix_len(), plan_.num_anchors) +
                             group * bits + first_bit / 8];
  const int shift = first_bit % 8;
  const unsigned mask = ((1u << bits) - 1) << shift;
  const unsigned value = unsigned{anchor} << shift;
  byte[0] = static_cast<uint8_t>((byte[0] & ~mask) | (value & 0xff));
  if (shift + bits <= 8) return;
  byte[1] = static_cast<uint8_t>((byte[1] & ~(mask >> 8)) | value >> 8);
}

void CompactWriter::StoreAssignments(Side side, int64_t head, std::span<const uint16_t> idx,
                                     std::span<const float> proj) {
  SideSpans& spans = sides_[static_cast<int>(side)];
  const std::span<const uint32_t> positions = Positions(head);
  const ProjectionLevels levels = FitProjectionLevels(proj, positions);
  std::copy(levels.begin(), levels.end(),
            spans.proj_level.begin() + head * kernels::kNumProjectionLevels);
  uint8_t* codes = &spans.proj[head * kernels::ProjectionRowBytes(plan_.prefix_len())];
  for (size_t i = 0; i < idx.size(); ++i) {
    StoreIndex(spans, head, static_cast<int64_t>(i), idx[i]);
    const uint8_t code = NearestLevel(levels, proj[i]);
    codes[i / 2] = i % 2 == 0 ? code : static_cast<uint8_t>(codes[i / 2] | code << 4);
  }
  for (size_t anchor = 0; anchor < positions.size(); ++anchor) {
    StoreIndex(spans, head, positions[anchor], static_cast<uint16_t>(anchor));
  }
}

void CompactWriter::LoadAssignments(Side side, int64_t head, int64_t first, std::span<uint16_t> idx,
                                    std::span<float> gamma) const {
  const SideSpans& spans = sides_[static_cast<int>(side)];
  std::array<float, kernels::kMaxCompactAnchors> inverse_norms;
  for (int64_t anchor = 0; anchor < plan_.num_anchors; ++anchor) {
    inverse_norms[anchor] = kernels::InverseNorm(AnchorRow(plan_, spans.anchors, head, anchor),
                                                 static_cast<int>(plan_.head_dim));
  }
  for (size_t i = 0; i < idx.size(); ++i) {
    const int64_t position = first + static_cast<int64_t>(i);
    idx[i] = CompactIndex(plan_, spans.idx, head, position);
    gamma[i] = kernels::CompactGamma(
        CompactProjection(plan_, spans.proj, spans.proj_level, head, position),
        inverse_norms[idx[i]]);
  }
  const std::span<const uint32_t> positions = Positions(head);
  const int64_t end = first + static_cast<int64_t>(idx.size());
  auto next = std::lower_bound(positions.begin(), positions.end(), first);
  for (; next != positions.end() && *next < end; ++next) gamma[*next - first] = 1.0f;
}

bool CompactWriter::StoreResidual(Side side, int64_t slot, int64_t fine_slot, int64_t position,
                                  float* residual) {
  SideSpans& spans = sides_[static_cast<int>(side)];
  const int dim = static_cast<int>(plan_.head_dim);
  if (side == Side::kKey) RotateRow(rope_, position, residual);
  kernels::RotateResidual(dim, residual);
  uint8_t* codes = &spans.coarse.codes[slot * (dim / 4)];
  if (fine_slot < 0) {
    const float scale = kernels::EncodeResidual(dim, residual, packing_, true, codes);
    spans.coarse.scale[slot] = kernels::ToBf16(scale);
    return std::isfinite(scale);
  }
  const kernels::TwoScales scales = kernels::EncodeResidualTwice(
      dim, residual, packing_, codes, &spans.fine.codes[fine_slot * (dim / 4)]);
  spans.coarse.scale[slot] = kernels::ToBf16(scales.scale);
  spans.fine.scale[fine_slot] = kernels::ToBf16(scales.fine_scale);
  return std::isfinite(scales.scale);
}

}  // namespace anchorage::kv
