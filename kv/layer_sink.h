// Who takes a layer's cache the moment it is final: an in-process cache, the transport, a dump.
#pragma once

#include "absl/status/status.h"
#include "kv/compressed_layer.h"

namespace anchorage::kv {

class LayerSink {
 public:
  virtual ~LayerSink() = default;
  // Called by the schedule at the end of each layer, in ascending order, on the schedule's thread.
  // Takes ownership and should return at once; an error ends the prefill.
  virtual absl::Status OnLayer(int layer, CompressedLayer&& cache) = 0;
};

}  // namespace anchorage::kv
