// A finished layer's cache: the exact bytes that travel and that a decode node attends over.
#pragma once

#include <cstdint>
#include <memory>

#include "common/aligned_buffer.h"
#include "kv/plan/plan.h"

namespace anchorage::kv {

// Move-only. `region` is plan.region_bytes long, laid out as plan.tensors says.
struct CompressedLayer {
  int layer = 0;
  LayerPlan plan;
  AlignedBuffer region;
  uint64_t checksum = 0;         // XXH3-64 of the region
  std::shared_ptr<void> charge;  // keeps the memory accounted for while the region lives
};

}  // namespace anchorage::kv
