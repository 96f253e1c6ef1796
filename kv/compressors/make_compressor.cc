#include "kv/compressor.h"
#include "kv/compressors/anchorkv.h"
#include "kv/compressors/none.h"

namespace anchorage::kv {

std::unique_ptr<LayerCompressor> MakeCompressor(const PlanOptions& options) {
  if (options.layout == Layout::kDense) return std::make_unique<NoneCompressor>();
  return std::make_unique<AnchorKvCompressor>(options);
}

}  // namespace anchorage::kv
