// What the compressors that evict positions share: the rows of those that stay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/stream.h"
#include "kv/compressor.h"

namespace anchorage::kv {

// Fills retained_k, retained_v and retained_pos of `region` with the rows of `positions`
// [H][n], ascending in each head. The same bits as in a dense cache.
void StoreRetainedRows(const LayerKv& layer, const LayerPlan& plan,
                       const std::vector<std::vector<uint32_t>>& positions,
                       std::span<std::byte> region, kernels::Stream& stream);

}  // namespace anchorage::kv
