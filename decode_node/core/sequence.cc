#include "decode_node/core/sequence.h"

#include <utility>

#include "common/status_macros.h"
#include "kv/layer_cache.h"

namespace anchorage::decode {

using kernels::Bf16;
using kernels::kGeneratedBlockTokens;

Sequence::Sequence(SequenceRequest request, std::shared_ptr<Grant> memory, int32_t first_token)
    : request_(std::move(request)),
      memory_(std::move(memory)),
      blocks_(memory_->plan().layers.size()),
      tokens_{first_token} {
  const std::vector<kv::LayerPlan>& layers = memory_->plan().layers;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    // The grant's regions have the plan's sizes, so this cannot fail.
    prefix_.push_back(
        kv::MapLayer(layers[layer], memory_->region(static_cast<int>(layer))).value());
  }
}

absl::Status Sequence::PrepareStep() {
  const int64_t block = num_cached_ / kGeneratedBlockTokens;
  if (block < memory_->num_blocks()) return absl::OkStatus();
  RETURN_IF_ERROR(memory_->TakeBlock());
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    blocks_[layer].push_back(
        reinterpret_cast<const Bf16*>(memory_->block(block, static_cast<int>(layer))));
  }
  return absl::OkStatus();
}

Bf16* Sequence::key_slot(int64_t layer) {
  const kv::LayerPlan& plan = memory_->plan().layers[static_cast<size_t>(layer)];
  const int64_t block = num_cached_ / kGeneratedBlockTokens;
  const int64_t row = num_cached_ % kGeneratedBlockTokens;
  return reinterpret_cast<Bf16*>(memory_->block(block, static_cast<int>(layer))) +
         row * plan.head_dim;
}

Bf16* Sequence::value_slot(int64_t layer) {
  const kv::LayerPlan& plan = memory_->plan().layers[static_cast<size_t>(layer)];
  return key_slot(layer) + plan.num_kv_heads * kGeneratedBlockTokens * plan.head_dim;
}

kernels::SequenceCache Sequence::cache(int64_t layer) const {
  kernels::SequenceCache cache = prefix_[static_cast<size_t>(layer)];
  cache.blocks = blocks_[static_cast<size_t>(layer)].data();
  cache.num_generated = num_cached_ + 1;
  return cache;
}

void Sequence::Append(int32_t token) {
  ++num_cached_;
  tokens_.push_back(token);
}

}  // namespace anchorage::decode
