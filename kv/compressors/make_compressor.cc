#include "kv/compressor.h"
#include "kv/compressors/anchorkv.h"
#include "kv/compressors/none.h"
#include "kv/compressors/recent.h"
#include "kv/compressors/snapkv.h"

namespace anchorage::kv {

std::unique_ptr<LayerCompressor> MakeCompressor(const PlanOptions& options) {
  switch (options.layout) {
    case Layout::kDense:
      return std::make_unique<NoneCompressor>();
    case Layout::kSnapKv:
      return std::make_unique<SnapKvCompressor>(options);
    case Layout::kRecent:
      return std::make_unique<RecentCompressor>();
    case Layout::kCompact:
    case Layout::kPaper:
      break;
  }
  return std::make_unique<AnchorKvCompressor>(options);
}

}  // namespace anchorage::kv
