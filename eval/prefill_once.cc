#include "eval/prefill_once.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "model/decode_layer.h"
#include "model/head.h"
#include "model/packed_layer.h"
#include "model/prefill_layer.h"

namespace anchorage::eval {
namespace {

constexpr int64_t kChunkTokens = 2048;

class Run {
 public:
  static absl::StatusOr<Run> Create(const model::Model& model, std::span<const int32_t> ids,
                                    int64_t seq_len, kernels::Stream& stream) {
    const int64_t total = static_cast<int64_t>(ids.size());
    ASSIGN_OR_RETURN(model::PackedLayer packed, model::PackedLayer::Create(model.config()));
    ASSIGN_OR_RETURN(model::ActiveKv kv, model::ActiveKv::Create(model.config(), total));
    RETURN_IF_ERROR(kv.Begin(total));
    ASSIGN_OR_RETURN(model::PrefillScratch scratch,
                     model::PrefillScratch::Create(model.config(), std::min(total, kChunkTokens),
                                                   total, stream.num_threads()));
    Run run(model, seq_len, stream, std::move(packed), std::move(kv), std::move(scratch));
    run.hidden_.resize(static_cast<size_t>(total * model.config().hidden_dim));
    RETURN_IF_ERROR(model::EmbedTokens(model, ids.data(), total, run.hidden_.data()));
    return run;
  }

  absl::Status RunLayer(int64_t layer, std::span<CandidateCache> caches, LayerWitness* witness) {
    RETURN_IF_ERROR(packed_.Unpack(model_, layer, stream_));
    ASSIGN_OR_RETURN(
        model::ObservedRows observed,
        model::ObservedRows::Create(model_.config(), seq_len_, WindowOf(caches, witness)));
    RETURN_IF_ERROR(RunChunks(layer, 0, seq_len_, observed));
    const int64_t num_following = witness == nullptr ? 0 : total() - seq_len_;
    ASSIGN_OR_RETURN(model::ObservedRows following,
                     model::ObservedRows::Create(model_.config(), total(), num_following));
    RETURN_IF_ERROR(RunChunks(layer, seq_len_, total(), following));

    kernels::ActiveKvView prompt = kv_.view();
    prompt.seq_len = seq_len_;  // the rows behind it stay in the buffer, unseen
    const kv::LayerKv layer_kv{static_cast<int>(layer), prompt, model_.rope()};
    for (CandidateCache& cache : caches) {
      RETURN_IF_ERROR(cache.TakeLayer(layer_kv, observed.view(), stream_));
    }
    if (witness == nullptr) return absl::OkStatus();
    return witness->OnLayer(layer_kv, observed.view(), following.view(), stream_);
  }

  // `witness` may be null.
  absl::Status RunLayers(std::span<CandidateCache> caches, LayerWitness* witness) {
    for (int64_t layer = 0; layer < model_.config().num_layers; ++layer) {
      RETURN_IF_ERROR(RunLayer(layer, caches, witness));
    }
    return absl::OkStatus();
  }

  // Of all positions from `first` on, after the last layer. Overwrites their hidden states.
  absl::StatusOr<std::vector<float>> LogitsFrom(int64_t first) {
    const int64_t rows = total() - first;
    std::vector<float> logits(static_cast<size_t>(rows * model_.config().vocab_size));
    float* hidden = hidden_.data() + first * model_.config().hidden_dim;
    RETURN_IF_ERROR(model::ComputeLogits(model_, rows, hidden, hidden, logits.data(), stream_));
    return logits;
  }

 private:
  Run(const model::Model& model, int64_t seq_len, kernels::Stream& stream,
      model::PackedLayer packed, model::ActiveKv kv, model::PrefillScratch scratch)
      : model_(model),
        seq_len_(seq_len),
        stream_(stream),
        packed_(std::move(packed)),
        kv_(std::move(kv)),
        scratch_(std::move(scratch)) {}

  int64_t total() const {
    return static_cast<int64_t>(hidden_.size()) / model_.config().hidden_dim;
  }

  static int64_t WindowOf(std::span<const CandidateCache> caches, const LayerWitness* witness) {
    int64_t window = witness == nullptr ? 0 : witness->window_len();
    for (const CandidateCache& cache : caches) {
      window = std::max(window, cache.options().window_len);
    }
    return window;
  }

  absl::Status RunChunks(int64_t layer, int64_t begin, int64_t end, model::ObservedRows& observed) {
    const model::LayerMatrices matrices{&model_.layer(layer), &packed_};
    for (int64_t start = begin; start < end; start += kChunkTokens) {
      float* hidden = hidden_.data() + start * model_.config().hidden_dim;
      RETURN_IF_ERROR(model::PrefillChunk(model_, matrices, start,
                                          std::min(kChunkTokens, end - start), hidden, kv_,
                                          observed, scratch_, stream_));
    }
    return absl::OkStatus();
  }

  const model::Model& model_;
  int64_t seq_len_;
  kernels::Stream& stream_;
  model::PackedLayer packed_;
  model::ActiveKv kv_;
  model::PrefillScratch scratch_;
  std::vector<float> hidden_;  // [total, d]
};

}  // namespace

absl::StatusOr<std::vector<float>> PrefillOnce(const model::Model& model,
                                               std::span<const int32_t> ids, int64_t seq_len,
                                               std::span<CandidateCache> caches,
                                               kernels::Stream& stream, LayerWitness* witness) {
  ASSIGN_OR_RETURN(Run run, Run::Create(model, ids, seq_len, stream));
  RETURN_IF_ERROR(run.RunLayers(caches, witness));
  return run.LogitsFrom(seq_len);
}

absl::StatusOr<std::vector<float>> PrefillPrompt(const model::Model& model,
                                                 std::span<const int32_t> ids,
                                                 std::span<CandidateCache> caches,
                                                 kernels::Stream& stream) {
  const auto seq_len = static_cast<int64_t>(ids.size());
  ASSIGN_OR_RETURN(Run run, Run::Create(model, ids, seq_len, stream));
  RETURN_IF_ERROR(run.RunLayers(caches, /*witness=*/nullptr));
  return run.LogitsFrom(seq_len - 1);
}

}  // namespace anchorage::eval
