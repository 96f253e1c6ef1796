#include "eval/candidate_cache.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "decode_node/core/engine.h"
#include "eval/ablation/ablated_layer.h"
#include "kv/layer_cache.h"

namespace anchorage::eval {
namespace {

// The plan of the memory that is decoded over.
kv::PlanOptions DecodedOptions(const kv::PlanOptions& options, bool ablated) {
  if (options.layout != kv::Layout::kPaper && !ablated) return options;
  kv::PlanOptions dense;
  dense.layout = kv::Layout::kDense;
  return dense;
}

// The last `num_rows` of the rows: other caches may have asked for a wider window.
kernels::ObservedRowsView LastRows(kernels::ObservedRowsView observed, int64_t num_rows) {
  const int64_t skipped = observed.num_rows - std::min<int64_t>(observed.num_rows, num_rows);
  const int64_t row = int64_t{observed.num_q_heads} * observed.head_dim;
  observed.num_rows -= static_cast<int>(skipped);
  observed.q += skipped * row;
  observed.out += skipped * row;
  observed.lse += skipped * observed.num_q_heads;
  return observed;
}

void RoundTo(std::span<kernels::Bf16> to, const std::vector<float>& from) {
  std::transform(from.begin(), from.end(), to.begin(), kernels::ToBf16);
}

}  // namespace

CandidateCache::CandidateCache(const kv::PlanOptions& options,
                               const std::optional<Ablation>& ablation, kv::RequestPlan plan,
                               std::shared_ptr<decode::Grant> memory, int64_t max_new)
    : options_(options),
      ablation_(ablation),
      plan_(std::move(plan)),
      memory_(std::move(memory)),
      max_new_(max_new),
      compressor_(kv::MakeCompressor(options)) {
  for (const kv::LayerPlan& layer : plan_.layers) {
    const std::vector<float> none(static_cast<size_t>(layer.num_kv_heads));
    shares_.push_back({none, none});
  }
}

absl::StatusOr<CandidateCache> CandidateCache::Create(const model::Model& model,
                                                      const kv::PlanOptions& served,
                                                      int64_t seq_len, int64_t max_new,
                                                      decode::Arena& arena,
                                                      const std::optional<Ablation>& ablation) {
  if (ablation && served.layout != kv::Layout::kCompact) {
    return Invalid("only anchorkv has ablations");
  }
  const kv::PlanOptions options = ablation ? PlanOf(*ablation, served) : served;
  const kv::Geometry geometry = model.geometry();
  const std::string wrong = kv::CheckPlan(geometry, options, seq_len, max_new);
  if (!wrong.empty()) return Invalid("%s", wrong);
  ASSIGN_OR_RETURN(std::shared_ptr<decode::Grant> memory,
                   arena.Reserve(kv::PlanRequest(
                       geometry, DecodedOptions(options, ablation.has_value()), seq_len, max_new)));
  return CandidateCache(options, ablation, kv::PlanRequest(geometry, options, seq_len, max_new),
                        std::move(memory), max_new);
}

absl::Status CandidateCache::TakeLayer(const kv::LayerKv& layer,
                                       const kernels::ObservedRowsView& observed,
                                       kernels::Stream& stream) {
  const kv::LayerPlan& plan = plan_.layers[static_cast<size_t>(layer.layer)];
  const kernels::ObservedRowsView rows = LastRows(observed, options_.window_len);
  if (ablation_ && plan.layout == kv::Layout::kCompact) {
    ASSIGN_OR_RETURN(const AblatedLayer ablated,
                     AblateLayer(layer, rows, plan, options_, *ablation_, stream));
    CountResiduals(layer.layer, ablated);
    StoreRows(layer.layer, ablated.rows);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      const kv::CompressedLayer cache,
      compressor_->Compress(layer, rows, plan, decode::kCodePacking, workspace_, stream));
  RETURN_IF_ERROR(kv::VerifyLayer(plan, cache.region.span()));
  CountResiduals(cache);
  if (plan.layout == kv::Layout::kPaper) return StoreReconstructed(cache, layer.rope);
  std::memcpy(memory_->region(layer.layer).data(), cache.region.data(), cache.region.size());
  memory_->MarkLanded(layer.layer);
  return absl::OkStatus();
}

void CandidateCache::CountResiduals(const kv::CompressedLayer& layer) {
  for (const kv::Side side : kv::kSides) {
    const std::span<const uint32_t> first_slot = kv::TensorSpan<const uint32_t>(
        layer.plan, layer.region.span(), side, "offset_k", "offset_v");
    std::vector<float>& shares =
        shares_[static_cast<size_t>(layer.layer)][static_cast<size_t>(side)];
    for (size_t head = 0; head + 1 < first_slot.size(); ++head) {
      shares[head] = static_cast<float>(first_slot[head + 1] - first_slot[head]) /
                     static_cast<float>(layer.plan.seq_len);
    }
  }
}

void CandidateCache::CountResiduals(int layer, const AblatedLayer& ablated) {
  const int64_t seq_len = plan_.layers[static_cast<size_t>(layer)].seq_len;
  for (size_t side = 0; side < ablated.codes.size(); ++side) {
    std::vector<float>& shares = shares_[static_cast<size_t>(layer)][side];
    const int64_t positions = std::ssize(ablated.codes[side]) / std::ssize(shares);
    for (int64_t head = 0; head < std::ssize(shares); ++head) {
      const auto first = ablated.codes[side].begin() + head * positions;
      const auto count =
          std::count_if(first, first + positions, [](uint8_t codes) { return codes > 0; });
      shares[static_cast<size_t>(head)] = static_cast<float>(count) / static_cast<float>(seq_len);
    }
  }
}

absl::Status CandidateCache::StoreReconstructed(const kv::CompressedLayer& layer,
                                                const kernels::RopeView& rope) {
  ASSIGN_OR_RETURN(
      const kv::ReconstructedLayer rows,
      kv::ReconstructLayer(layer.plan, layer.region.span(), rope, kernels::CodePacking::kLinear));
  StoreRows(layer.layer, rows);
  return absl::OkStatus();
}

void CandidateCache::StoreRows(int layer, const kv::ReconstructedLayer& rows) {
  const kv::LayerPlan& dense = memory_->plan().layers[static_cast<size_t>(layer)];
  const std::span<std::byte> region = memory_->region(layer);
  RoundTo(kv::TensorSpan<kernels::Bf16>(dense, region, "k"), rows.k);
  RoundTo(kv::TensorSpan<kernels::Bf16>(dense, region, "v"), rows.v);
  memory_->MarkLanded(layer);
}

decode::Sequence& CandidateCache::Join(int32_t token) {
  decode::SequenceRequest request;
  request.prompt_tokens = plan_.layers.front().seq_len;
  request.max_new = max_new_;
  sequence_ = std::make_unique<decode::Sequence>(std::move(request), memory_, token);
  return *sequence_;
}

}  // namespace anchorage::eval
