// The part of `anchorage inspect` that knows saved caches.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kv/serialized.h"

namespace anchorage::tools {

// Header, sizes by tensor and a verdict for each layer, as text or as one JSON object. DataLoss:
// a layer failed its checksum or its verification; everything was printed all the same.
absl::Status PrintCache(const kv::SavedCache& cache, bool json);

// Writes one layer for numpy: reconstructed_k and reconstructed_v [H, S, D] f32, K after RoPE, then
// every stored tensor under its own name, bf16 widened to f32. DataLoss: the layer does not verify.
absl::Status WriteLayerNpz(const kv::SavedCache& cache, int64_t layer, const std::string& path);

}  // namespace anchorage::tools
