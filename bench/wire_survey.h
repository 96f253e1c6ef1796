// What the bytes of compact layers are, and how far each kind of them can shrink.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "bench/region_coder.h"
#include "kv/compressed_layer.h"

namespace anchorage::bench {

// Tensors that hold the same kind of bytes, over all layers.
struct WireGroup {
  const char* name = "";
  int64_t bytes = 0;
  double order_zero_bytes = 0;  // Shannon's bound: whole symbols, statistics of each tensor
  int64_t zstd_bytes = 0;       // each tensor of each layer in a frame
  int64_t lanes_bytes = 0;      // each byte of its elements in a frame of its own
};

// One thread at a time.
class WireSurvey {
 public:
  // Precondition: the layer is compact.
  absl::Status Add(const kv::CompressedLayer& layer, RegionCoder& coder);

  // In the order of the region; the padding between tensors comes last.
  const std::vector<WireGroup>& groups() const { return groups_; }

  // The parts of a layer that zstd made, over all layers, at most `share` of what they were.
  // Precondition: a layer with the same tensors was added.
  std::vector<Part> PartsThatShrink(const kv::LayerPlan& plan, double share) const;

 private:
  struct Lane {
    int64_t bytes = 0;
    int64_t coded_bytes = 0;
  };

  WireGroup& Named(const char* name);

  std::vector<WireGroup> groups_;
  std::map<std::pair<std::string, size_t>, Lane> lanes_;  // by tensor and number
};

}  // namespace anchorage::bench
