#include "kv/layer_cache.h"

#include <xxhash.h>

#include "common/status.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {
namespace {

kernels::CompactSide MapSide(const LayerPlan& plan, std::span<const std::byte> region, Side side) {
  const auto find = [&]<typename T>(const char* key_name, const char* value_name, const T*& out) {
    const std::span<const T> tensor = TensorSpan<const T>(plan, region, side, key_name, value_name);
    out = tensor.data();
  };
  kernels::CompactSide view;
  find("anchor_k", "anchor_v", view.anchor);
  find("idx_k", "idx_v", view.idx);
  find("idx_high_k", "idx_high_v", view.idx_high);
  find("proj_k", "proj_v", view.proj);
  find("proj_step_k", "proj_step_v", view.proj_step);
  find("mask_k", "mask_v", view.mask);
  find("prefix_k", "prefix_v", view.prefix);
  find("offset_k", "offset_v", view.offset);
  find("codes_k", "codes_v", view.codes);
  find("scale_k", "scale_v", view.scale);
  return view;
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
  cache.prefix = kernels::SequenceCache::Prefix::kCompact;
  cache.compact.num_kv_heads = static_cast<int>(plan.num_kv_heads);
  cache.compact.head_dim = static_cast<int>(plan.head_dim);
  cache.compact.seq_len = plan.seq_len;
  cache.compact.num_anchors = static_cast<int>(plan.num_anchors);
  cache.compact.window_len = static_cast<int>(plan.window_len);
  cache.compact.anchor_pos = TensorSpan<const uint32_t>(plan, region, "anchor_pos").data();
  cache.compact.key = MapSide(plan, region, Side::kKey);
  cache.compact.value = MapSide(plan, region, Side::kValue);
  return cache;
}

uint64_t Checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace anchorage::kv
