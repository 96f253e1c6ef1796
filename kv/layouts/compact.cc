#include "kv/layouts/compact.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "kv/layouts/anchor_row.h"
#include "kv/layouts/projection_levels.h"
#include "kv/rotate_row.h"

namespace anchorage::kv {

CompactWriter::CompactWriter(const LayerPlan& plan, std::span<std::byte> region,
                             const kernels::RopeView& rope, kernels::CodePacking packing)
    : plan_(plan), rope_(rope), packing_(packing) {
  pins_.resize(static_cast<size_t>(plan_.num_pins));
  std::iota(pins_.begin(), pins_.end(), 0);
  pair_order_ = TensorSpan<uint8_t>(plan_, region, "pair_order_k");
  key_gain_ = TensorSpan<float>(plan_, region, "key_gain_k");
  for (const Side side : kSides) {
    SideSpans& spans = sides_[static_cast<int>(side)];
    spans.anchors = TensorSpan<int8_t>(plan_, region, side, "anchor_k", "anchor_v");
    spans.anchor_exponents =
        TensorSpan<int8_t>(plan_, region, side, "anchor_exponent_k", "anchor_exponent_v");
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

void CompactWriter::StoreAnchors(Side side, int64_t head, std::span<kernels::Bf16> rows) {
  SideSpans& spans = sides_[static_cast<int>(side)];
  const int dim = static_cast<int>(plan_.head_dim);
  for (int64_t anchor = 0; anchor < plan_.num_anchors; ++anchor) {
    kernels::Bf16* row = rows.data() + anchor * dim;
    int8_t* numbers = AnchorRow(plan_, spans.anchors, head, anchor);
    int8_t& exponent = spans.anchor_exponents[head * plan_.num_anchors + anchor];
    exponent = kernels::EncodeAnchor(dim, row, numbers);
    kernels::DecodeAnchors(1, dim, numbers, &exponent, row);
  }
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
  const ProjectionLevels levels = FitProjectionLevels(proj, pins_);
  std::copy(levels.begin(), levels.end(),
            spans.proj_level.begin() + head * kernels::kNumProjectionLevels);
  uint8_t* codes = &spans.proj[head * kernels::ProjectionRowBytes(plan_.prefix_len())];
  for (size_t i = 0; i < idx.size(); ++i) {
    StoreIndex(spans, head, static_cast<int64_t>(i), idx[i]);
    const uint8_t code = NearestLevel(levels, proj[i]);
    codes[i / 2] = i % 2 == 0 ? code : static_cast<uint8_t>(codes[i / 2] | code << 4);
  }
  for (const uint32_t pin : pins_) StoreIndex(spans, head, pin, static_cast<uint16_t>(pin));
}

void CompactWriter::LoadAssignments(Side side, int64_t head, int64_t first, std::span<uint16_t> idx,
                                    std::span<float> gamma) const {
  const SideSpans& spans = sides_[static_cast<int>(side)];
  const int dim = static_cast<int>(plan_.head_dim);
  std::array<kernels::Bf16, kMaxHeadDim> row;
  std::array<float, kernels::kMaxCompactAnchors> inverse_norms;
  for (int64_t anchor = 0; anchor < plan_.num_anchors; ++anchor) {
    kernels::DecodeAnchors(1, dim, AnchorRow(plan_, spans.anchors, head, anchor),
                           &spans.anchor_exponents[head * plan_.num_anchors + anchor], row.data());
    inverse_norms[anchor] = kernels::InverseNorm(row.data(), dim);
  }
  for (size_t i = 0; i < idx.size(); ++i) {
    const int64_t position = first + static_cast<int64_t>(i);
    idx[i] = CompactIndex(plan_, spans.idx, head, position);
    gamma[i] = kernels::CompactGamma(
        CompactProjection(plan_, spans.proj, spans.proj_level, head, position),
        inverse_norms[idx[i]]);
  }
  const int64_t end = first + static_cast<int64_t>(idx.size());
  for (int64_t pin = first; pin < std::min(end, plan_.num_pins); ++pin) gamma[pin - first] = 1.0f;
}

void CompactWriter::StoreKeyCode(int64_t head, const kernels::KeyCode& code) {
  std::copy_n(code.order, plan_.head_dim / 2, &pair_order_[head * plan_.head_dim / 2]);
  std::copy_n(code.gain, 2, &key_gain_[2 * head]);
}

bool CompactWriter::StoreResidual(Side side, int64_t head, int64_t slot, int64_t fine_slot,
                                  int64_t position, float* residual) {
  SideSpans& spans = sides_[static_cast<int>(side)];
  const int dim = static_cast<int>(plan_.head_dim);
  uint8_t* codes = &spans.coarse.codes[slot * (dim / 4)];
  if (side == Side::kKey) {
    RotateRow(rope_, position, residual);
    if (fine_slot < 0) {
      const float scale = kernels::EncodeKey(CompactKeyCode(plan_, pair_order_, key_gain_, head),
                                             residual, packing_, codes);
      spans.coarse.scale[slot] = kernels::ToBf16(scale);
      return std::isfinite(scale);
    }
  }
  kernels::RotateResidual(dim, residual);
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
