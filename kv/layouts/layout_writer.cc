#include "kv/layouts/layout_writer.h"

#include "kv/layouts/compact.h"
#include "kv/layouts/paper.h"

namespace anchorage::kv {

std::unique_ptr<LayoutWriter> MakeLayoutWriter(const LayerPlan& plan, std::span<std::byte> region,
                                               const kernels::RopeView& rope,
                                               kernels::CodePacking packing) {
  if (plan.layout == Layout::kPaper) return std::make_unique<PaperWriter>(plan, region);
  return std::make_unique<CompactWriter>(plan, region, rope, packing);
}

}  // namespace anchorage::kv
