// A key as it is attended to where nothing is compressed: rotated in float, then rounded once.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/types.h"
#include "kv/compressor.h"
#include "kv/rotate_row.h"

namespace anchorage::kv {

// out [D]. Precondition: CheckLayer found the layer good, so D is at most 512.
inline void StoreDenseKey(const LayerKv& layer, int64_t head, int64_t position,
                          kernels::Bf16* out) {
  const int64_t dim = layer.kv.head_dim;
  const kernels::Bf16* key = layer.kv.k + (head * layer.kv.capacity + position) * dim;
  std::array<float, kMaxHeadDim> row;
  for (int64_t i = 0; i < dim; ++i) row[i] = kernels::ToFloat(key[i]);
  RotateRow(layer.rope, position, row.data());
  for (int64_t i = 0; i < dim; ++i) out[i] = kernels::ToBf16(row[i]);
}

}  // namespace anchorage::kv
