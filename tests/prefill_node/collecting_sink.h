// Keeps the layers that a prefill hands over.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "kv/layer_sink.h"

namespace anchorage::prefill {

class CollectingSink : public kv::LayerSink {
 public:
  absl::Status OnLayer(int layer, kv::CompressedLayer&& cache) override {
    if (on_layer) {
      if (absl::Status status = on_layer(layer); !status.ok()) return status;
    }
    layers.push_back(std::move(cache));
    return absl::OkStatus();
  }

  std::function<absl::Status(int layer)> on_layer;  // before the layer is kept; may be empty
  std::vector<kv::CompressedLayer> layers;
};

}  // namespace anchorage::prefill
