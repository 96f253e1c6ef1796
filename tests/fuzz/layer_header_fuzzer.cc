// Any bytes as the announcement of a layer, the first that a decode node reads from a KV peer.

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "worker/layer_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anchorage::worker;  // NOLINT: the entry point cannot stand inside
  const absl::StatusOr<LayerHeader> header =
      ParseLayerHeader(std::as_bytes(std::span<const uint8_t>(data, size)));
  if (!header.ok()) return 0;
  // What was understood survives the way back.
  const std::string bytes = Serialize(*header);
  const absl::StatusOr<LayerHeader> again =
      ParseLayerHeader(std::as_bytes(std::span<const char>(bytes)));
  if (!again.ok() || Serialize(*again) != bytes) std::abort();
  return 0;
}
