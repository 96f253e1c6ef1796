#include "eval/profile/layer_errors.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "decode_node/core/arena.h"
#include "decode_node/core/engine.h"
#include "decode_node/core/sequence.h"
#include "eval/next_token.h"
#include "eval/prefill_once.h"
#include "kv/compressor.h"

namespace anchorage::eval {
namespace {

constexpr int64_t kArenaBytes = int64_t{1} << 40;  // more than the machine has

kv::PlanOptions Dense() {
  kv::PlanOptions options;
  options.layout = kv::Layout::kDense;
  return options;
}

// The plan with one layer replaced.
kv::RequestPlan WithLayer(kv::RequestPlan plan, int64_t layer, const kv::LayerPlan& other) {
  kv::LayerPlan& own = plan.layers[static_cast<size_t>(layer)];
  plan.prompt_bytes += other.bytes - own.bytes;
  plan.region_bytes += other.region_bytes - own.region_bytes;
  plan.bytes += other.region_bytes - own.region_bytes;
  own = other;
  return plan;
}

}  // namespace

// Keeps every layer of the prefill, as it is and compressed at each rate.
class LayerErrors::Keeper : public LayerWitness {
 public:
  Keeper(LayerErrors& errors, const kv::PlanOptions& options)
      : errors_(errors),
        options_(options),
        full_(kv::MakeCompressor(Dense())),
        compressor_(kv::MakeCompressor(options)) {}

  int64_t window_len() const override { return options_.window_len; }

  absl::Status OnLayer(const kv::LayerKv& layer, const kernels::ObservedRowsView& observed,
                       const kernels::ObservedRowsView& /*following*/,
                       kernels::Stream& stream) override {
    const kv::Geometry geometry = errors_.model_.geometry();
    const int64_t seq_len = errors_.seq_len_;
    ASSIGN_OR_RETURN(
        kv::CompressedLayer full,
        full_->Compress(layer, observed, kv::PlanLayer(geometry, Dense(), seq_len, layer.layer),
                        decode::kCodePacking, workspace_, stream));
    errors_.full_.push_back(std::move(full));
    std::vector<kv::CompressedLayer>& rates = errors_.compressed_.emplace_back();
    for (const int64_t millibits : errors_.millibits_) {
      ASSIGN_OR_RETURN(
          kv::CompressedLayer compressed,
          compressor_->Compress(layer, observed,
                                kv::PlanLayerAtRate(geometry, options_, seq_len, millibits),
                                decode::kCodePacking, workspace_, stream));
      rates.push_back(std::move(compressed));
    }
    return absl::OkStatus();
  }

 private:
  LayerErrors& errors_;
  kv::PlanOptions options_;
  std::unique_ptr<kv::LayerCompressor> full_;
  std::unique_ptr<kv::LayerCompressor> compressor_;
  kv::Workspace workspace_;
};

LayerErrors::LayerErrors(const model::Model& model, std::vector<int64_t> millibits,
                         std::span<const int32_t> ids, int64_t seq_len, decode::BatchStep& step)
    : model_(model),
      millibits_(std::move(millibits)),
      ids_(ids.begin(), ids.end()),
      seq_len_(seq_len),
      step_(step) {}

absl::StatusOr<std::unique_ptr<LayerErrors>> LayerErrors::Create(
    const model::Model& model, const kv::PlanOptions& options, std::vector<int64_t> millibits,
    std::span<const int32_t> ids, int64_t seq_len, decode::BatchStep& step,
    kernels::Stream& stream) {
  const std::string problem = kv::CheckPlan(model.geometry(), options, seq_len, 0);
  if (!problem.empty()) return Invalid("%s", problem);
  if (kv::PlanLayer(model.geometry(), options, seq_len, 0).layout != kv::Layout::kCompact) {
    return Invalid("a prompt of %d tokens is not compressed by these options", seq_len);
  }
  std::unique_ptr<LayerErrors> errors(
      new LayerErrors(model, std::move(millibits), ids, seq_len, step));
  Keeper keeper(*errors, options);
  RETURN_IF_ERROR(
      PrefillOnce(model, ids.first(static_cast<size_t>(seq_len)), seq_len, {}, stream, &keeper)
          .status());
  RETURN_IF_ERROR(errors->FindYardstick());
  return errors;
}

std::span<const std::byte> LayerErrors::Kept(int64_t layer, size_t row, bool compressed) const {
  const auto at = static_cast<size_t>(layer);
  return compressed ? compressed_[at][row].region.span() : full_[at].region.span();
}

absl::Status LayerErrors::Force(
    std::span<const kv::RequestPlan> plans, int64_t layer,
    const std::function<void(size_t, size_t, std::span<const float>)>& visit) {
  decode::Arena arena(kArenaBytes);
  std::vector<std::unique_ptr<decode::Sequence>> sequences;
  std::vector<decode::Sequence*> batch;
  const auto first = static_cast<size_t>(seq_len_);
  for (size_t row = 0; row < plans.size(); ++row) {
    ASSIGN_OR_RETURN(std::shared_ptr<decode::Grant> memory, arena.Reserve(plans[row]));
    for (int64_t each = 0; each < model_.config().num_layers; ++each) {
      const std::span<const std::byte> kept = Kept(each, row, each == layer);
      std::memcpy(memory->region(static_cast<int>(each)).data(), kept.data(), kept.size());
      memory->MarkLanded(static_cast<int>(each));
    }
    decode::SequenceRequest request;
    request.prompt_tokens = seq_len_;
    request.max_new = static_cast<int64_t>(ids_.size() - first);
    sequences.push_back(
        std::make_unique<decode::Sequence>(std::move(request), std::move(memory), ids_[first]));
    batch.push_back(sequences.back().get());
  }
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  for (size_t at = first; at + 1 < ids_.size(); ++at) {
    ASSIGN_OR_RETURN(const std::span<const float> logits, step_.Logits(batch));
    for (size_t row = 0; row < batch.size(); ++row) {
      visit(at - first, row, logits.subspan(row * vocab, vocab));
      batch[row]->Append(ids_[at + 1]);
    }
  }
  return absl::OkStatus();
}

absl::Status LayerErrors::FindYardstick() {
  const int64_t max_new = static_cast<int64_t>(ids_.size()) - seq_len_;
  const kv::RequestPlan plan = kv::PlanRequest(model_.geometry(), Dense(), seq_len_, max_new);
  constexpr int64_t kNoLayer = -1;
  return Force({&plan, 1}, kNoLayer, [&](size_t, size_t, std::span<const float> logits) {
    yardstick_.push_back(LogProbabilities(logits));
  });
}

absl::StatusOr<std::vector<double>> LayerErrors::Measure(int64_t layer) {
  const int64_t max_new = static_cast<int64_t>(ids_.size()) - seq_len_;
  const kv::RequestPlan dense = kv::PlanRequest(model_.geometry(), Dense(), seq_len_, max_new);
  std::vector<kv::RequestPlan> plans;
  for (const kv::CompressedLayer& compressed : compressed_[static_cast<size_t>(layer)]) {
    plans.push_back(WithLayer(dense, layer, compressed.plan));
  }
  std::vector<double> errors(millibits_.size());
  RETURN_IF_ERROR(Force(plans, layer, [&](size_t at, size_t row, std::span<const float> logits) {
    errors[row] += Divergence(yardstick_[at], LogProbabilities(logits)) /
                   static_cast<double>(yardstick_.size());
  }));
  for (const double error : errors) {
    if (!std::isfinite(error)) return Internal("layer %d: its divergence is no number", layer);
  }
  return errors;
}

}  // namespace anchorage::eval
