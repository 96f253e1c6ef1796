#include "kv/layer_cache.h"

#include <xxhash.h>

#include "common/status.h"
#include "kv/layouts/slot_index.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {
namespace {

kernels::ResidualStage MapStage(const LayerPlan& plan, std::span<const std::byte> region, Side side,
                                Stage stage) {
  const StageNames& names = NamesOf(side, stage);
  const SlotIndex slots = MapSlots(plan, region, side, stage);
  return {slots.mask.data(), slots.prefix.data(), slots.offset.data(),
          TensorSpan<const uint8_t>(plan, region, names.codes).data(),
          TensorSpan<const kernels::Bf16>(plan, region, names.scale).data()};
}

kernels::CompactSide MapSide(const LayerPlan& plan, std::span<const std::byte> region, Side side) {
  return {
      TensorSpan<const int8_t>(plan, region, side, "anchor_k", "anchor_v").data(),
      TensorSpan<const int8_t>(plan, region, side, "anchor_exponent_k", "anchor_exponent_v").data(),
      TensorSpan<const uint8_t>(plan, region, side, "idx_k", "idx_v").data(),
      TensorSpan<const uint8_t>(plan, region, side, "proj_k", "proj_v").data(),
      TensorSpan<const float>(plan, region, side, "proj_level_k", "proj_level_v").data(),
      MapStage(plan, region, side, Stage::kCoarse),
      MapStage(plan, region, side, Stage::kFine)};
}

}  // namespace

absl::StatusOr<kernels::SequenceCache> MapLayer(const LayerPlan& plan,
                                                std::span<const std::byte> region) {
  if (plan.layout == Layout::kPaper) return Invalid("the paper layout is never served");
  if (static_cast<int64_t>(region.size()) != plan.region_bytes) {
    return Invalid("a region of %d bytes where the plan has %d", region.size(), plan.region_bytes);
  }
  if (reinterpret_cast<uintptr_t>(region.data()) % kTensorAlignment != 0) {
    return Invalid("a region that does not begin on %d bytes", kTensorAlignment);
  }
  kernels::SequenceCache cache;
  if (plan.layout == Layout::kDense) {
    cache.prefix = kernels::SequenceCache::Prefix::kDense;
    cache.dense = {TensorSpan<const kernels::Bf16>(plan, region, "k").data(),
                   TensorSpan<const kernels::Bf16>(plan, region, "v").data(), plan.seq_len};
    return cache;
  }
  if (EvictsPositions(plan.layout)) {
    cache.prefix = kernels::SequenceCache::Prefix::kDense;
    cache.dense = {TensorSpan<const kernels::Bf16>(plan, region, "retained_k").data(),
                   TensorSpan<const kernels::Bf16>(plan, region, "retained_v").data(),
                   plan.num_retained};
    return cache;
  }
  cache.prefix = kernels::SequenceCache::Prefix::kCompact;
  cache.compact.num_kv_heads = static_cast<int>(plan.num_kv_heads);
  cache.compact.head_dim = static_cast<int>(plan.head_dim);
  cache.compact.seq_len = plan.seq_len;
  cache.compact.num_anchors = static_cast<int>(plan.num_anchors);
  cache.compact.window_len = static_cast<int>(plan.window_len);
  cache.compact.num_pins = static_cast<int>(plan.num_pins);
  cache.compact.pair_order = TensorSpan<const uint8_t>(plan, region, "pair_order_k").data();
  cache.compact.key_gain = TensorSpan<const float>(plan, region, "key_gain_k").data();
  cache.compact.key = MapSide(plan, region, Side::kKey);
  cache.compact.value = MapSide(plan, region, Side::kValue);
  return cache;
}

uint64_t Checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace anchorage::kv
