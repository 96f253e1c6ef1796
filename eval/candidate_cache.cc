#include "eval/candidate_cache.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/status_macros.h"
#include "decode_node/core/engine.h"
#include "kv/layer_cache.h"
#include "kv/layouts/reconstruct.h"
#include "kv/tensor_span.h"

namespace anchorage::eval {
namespace {

// The plan of the memory that is decoded over.
kv::PlanOptions DecodedOptions(const kv::PlanOptions& options) {
  if (options.layout != kv::Layout::kPaper) return options;
  kv::PlanOptions dense;
  dense.layout = kv::Layout::kDense;
  return dense;
}

void RoundTo(std::span<kernels::Bf16> to, const std::vector<float>& from) {
  std::transform(from.begin(), from.end(), to.begin(), kernels::ToBf16);
}

}  // namespace

CandidateCache::CandidateCache(const kv::PlanOptions& options, kv::RequestPlan plan,
                               std::shared_ptr<decode::Grant> memory, int64_t max_new)
    : options_(options),
      plan_(std::move(plan)),
      memory_(std::move(memory)),
      max_new_(max_new),
      compressor_(kv::MakeCompressor(options)) {}

absl::StatusOr<CandidateCache> CandidateCache::Create(const model::Model& model,
                                                      const kv::PlanOptions& options,
                                                      int64_t seq_len, int64_t max_new,
                                                      decode::Arena& arena) {
  const kv::Geometry geometry = model.geometry();
  const std::string wrong = kv::CheckPlan(geometry, options, seq_len, max_new);
  if (!wrong.empty()) return Invalid("%s", wrong);
  ASSIGN_OR_RETURN(
      std::shared_ptr<decode::Grant> memory,
      arena.Reserve(kv::PlanRequest(geometry, DecodedOptions(options), seq_len, max_new)));
  return CandidateCache(options, kv::PlanRequest(geometry, options, seq_len, max_new),
                        std::move(memory), max_new);
}

absl::Status CandidateCache::TakeLayer(const kv::LayerKv& layer,
                                       const kernels::ObservedRowsView& observed,
                                       kernels::Stream& stream) {
  const kv::LayerPlan& plan = plan_.layers[static_cast<size_t>(layer.layer)];
  ASSIGN_OR_RETURN(
      const kv::CompressedLayer cache,
      compressor_->Compress(layer, observed, plan, decode::kCodePacking, workspace_, stream));
  RETURN_IF_ERROR(kv::VerifyLayer(plan, cache.region.span()));
  if (plan.layout == kv::Layout::kPaper) return StoreReconstructed(cache, layer.rope);
  std::memcpy(memory_->region(layer.layer).data(), cache.region.data(), cache.region.size());
  memory_->MarkLanded(layer.layer);
  return absl::OkStatus();
}

absl::Status CandidateCache::StoreReconstructed(const kv::CompressedLayer& layer,
                                                const kernels::RopeView& rope) {
  ASSIGN_OR_RETURN(
      const kv::ReconstructedLayer rows,
      kv::ReconstructLayer(layer.plan, layer.region.span(), rope, kernels::CodePacking::kLinear));
  const kv::LayerPlan& dense = memory_->plan().layers[static_cast<size_t>(layer.layer)];
  const std::span<std::byte> region = memory_->region(layer.layer);
  RoundTo(kv::TensorSpan<kernels::Bf16>(dense, region, "k"), rows.k);
  RoundTo(kv::TensorSpan<kernels::Bf16>(dense, region, "v"), rows.v);
  memory_->MarkLanded(layer.layer);
  return absl::OkStatus();
}

decode::Sequence& CandidateCache::Join(int32_t token) {
  decode::SequenceRequest request;
  request.prompt_tokens = plan_.layers.front().seq_len;
  request.max_new = max_new_;
  sequence_ = std::make_unique<decode::Sequence>(std::move(request), memory_, token);
  return *sequence_;
}

}  // namespace anchorage::eval
