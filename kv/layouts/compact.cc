#include "kv/layouts/compact.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/compact_cache.h"
#include "kv/layouts/anchor_row.h"
#include "kv/rotate_row.h"

namespace anchorage::kv {
namespace {

constexpr int kMaxAnchors = 512;  // nine bits of index
constexpr float kMaxCode = 127.0f;

// Largest |projection| of the positions that are not anchors; `positions` [k - W] ascending.
float LargestProjection(std::span<const float> proj, std::span<const uint32_t> positions) {
  float largest = 0;
  size_t next = 0;
  for (size_t i = 0; i < proj.size(); ++i) {
    if (next < positions.size() && positions[next] == i) {
      ++next;
    } else {
      largest = std::max(largest, std::fabs(proj[i]));
    }
  }
  return largest;
}

int8_t ProjectionCode(float proj, float step) {
  if (step == 0) return 0;
  return static_cast<int8_t>(std::clamp(std::nearbyint(proj / step), -kMaxCode, kMaxCode));
}

}  // namespace

CompactWriter::CompactWriter(const LayerPlan& plan, std::span<std::byte> region,
                             const kernels::RopeView& rope, kernels::CodePacking packing)
    : plan_(plan), rope_(rope), packing_(packing) {
  anchor_pos_ = TensorSpan<uint32_t>(plan_, region, "anchor_pos");
  for (const Side side : kSides) {
    SideSpans& spans = sides_[static_cast<int>(side)];
    spans.anchors = TensorSpan<const kernels::Bf16>(plan_, region, side, "anchor_k", "anchor_v");
    spans.idx = TensorSpan<uint8_t>(plan_, region, side, "idx_k", "idx_v");
    spans.idx_high = TensorSpan<uint64_t>(plan_, region, side, "idx_high_k", "idx_high_v");
    spans.proj = TensorSpan<int8_t>(plan_, region, side, "proj_k", "proj_v");
    spans.proj_step = TensorSpan<float>(plan_, region, side, "proj_step_k", "proj_step_v");
    spans.codes = TensorSpan<uint8_t>(plan_, region, side, "codes_k", "codes_v");
    spans.scale = TensorSpan<kernels::Bf16>(plan_, region, side, "scale_k", "scale_v");
  }
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
  spans.idx[head * plan_.prefix_len() + position] = static_cast<uint8_t>(anchor);
  if (spans.idx_high.empty()) return;
  const uint64_t bit = uint64_t{1} << (position % 64);
  uint64_t& word = spans.idx_high[head * plan_.num_words() + position / 64];
  word = (anchor & 0x100u) != 0 ? word | bit : word & ~bit;
}

void CompactWriter::StoreAssignments(Side side, int64_t head, std::span<const uint16_t> idx,
                                     std::span<const float> proj) {
  SideSpans& spans = sides_[static_cast<int>(side)];
  const std::span<const uint32_t> positions = Positions(head);
  const float step = LargestProjection(proj, positions) / kMaxCode;
  spans.proj_step[head] = step;
  int8_t* codes = &spans.proj[head * plan_.prefix_len()];
  for (size_t i = 0; i < idx.size(); ++i) {
    StoreIndex(spans, head, static_cast<int64_t>(i), idx[i]);
    codes[i] = ProjectionCode(proj[i], step);
  }
  for (size_t anchor = 0; anchor < positions.size(); ++anchor) {
    StoreIndex(spans, head, positions[anchor], static_cast<uint16_t>(anchor));
  }
}

void CompactWriter::LoadAssignments(Side side, int64_t head, int64_t first, std::span<uint16_t> idx,
                                    std::span<float> gamma) const {
  const SideSpans& spans = sides_[static_cast<int>(side)];
  std::array<float, kMaxAnchors> units;
  for (int64_t anchor = 0; anchor < plan_.num_anchors; ++anchor) {
    const kernels::Bf16* row = AnchorRow(plan_, spans.anchors, head, anchor);
    const float norm = kernels::AnchorNorm(row, static_cast<int>(plan_.head_dim));
    units[anchor] = kernels::GammaUnit(spans.proj_step[head], norm);
  }
  const int8_t* codes = &spans.proj[head * plan_.prefix_len()];
  for (size_t i = 0; i < idx.size(); ++i) {
    const int64_t position = first + static_cast<int64_t>(i);
    idx[i] = CompactIndex(plan_, spans.idx, spans.idx_high, head, position);
    gamma[i] = kernels::CompactGamma(codes[position], units[idx[i]]);
  }
  const std::span<const uint32_t> positions = Positions(head);
  const int64_t end = first + static_cast<int64_t>(idx.size());
  auto next = std::lower_bound(positions.begin(), positions.end(), first);
  for (; next != positions.end() && *next < end; ++next) gamma[*next - first] = 1.0f;
}

bool CompactWriter::StoreResidual(Side side, int64_t slot, int64_t position, float* residual) {
  SideSpans& spans = sides_[static_cast<int>(side)];
  const int dim = static_cast<int>(plan_.head_dim);
  if (side == Side::kKey) RotateRow(rope_, position, residual);
  kernels::RotateResidual(dim, residual);
  const float scale =
      kernels::EncodeResidual(dim, residual, packing_, true, &spans.codes[slot * (dim / 4)]);
  spans.scale[slot] = kernels::ToBf16(scale);
  return std::isfinite(scale);
}

}  // namespace anchorage::kv
