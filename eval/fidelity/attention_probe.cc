#include "eval/fidelity/attention_probe.h"

#include <algorithm>
#include <cmath>

#include "common/status.h"
#include "common/status_macros.h"
#include "decode_node/core/engine.h"
#include "kernels/decode_attention.h"
#include "kv/kernel_status.h"
#include "kv/layer_cache.h"
#include "kv/layouts/reconstruct.h"

namespace anchorage::eval {
namespace {

// Scores are compared in plain loops, so few rows have to do.
constexpr int64_t kLogitRows = 4;

bool KeepsEveryKey(kv::Layout layout) {
  return layout == kv::Layout::kDense || layout == kv::Layout::kCompact;
}

// What the layer's keys are when they are decoded over, [H, S, D] after RoPE.
absl::StatusOr<std::vector<float>> KeysOf(const CandidateCache& cache, const kv::LayerKv& layer) {
  ASSIGN_OR_RETURN(
      kv::ReconstructedLayer rows,
      kv::ReconstructLayer(cache.decoded_plan(layer.layer), cache.decoded_region(layer.layer),
                           layer.rope, decode::kCodePacking));
  return std::move(rows.k);
}

double Dot(const float* a, const float* b, int64_t count) {
  float lanes[8] = {};
  for (int64_t i = 0; i < count; i += 8) {
    for (int64_t j = 0; j < 8; ++j) lanes[j] += a[i + j] * b[i + j];
  }
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

}  // namespace

double Cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0;
  double norm_a = 0;
  double norm_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += double{a[i]} * b[i];
    norm_a += double{a[i]} * a[i];
    norm_b += double{b[i]} * b[i];
  }
  if (norm_a == 0 || norm_b == 0) return norm_a == norm_b ? 1 : 0;
  return std::clamp(product / std::sqrt(norm_a * norm_b), -1.0, 1.0);
}

void RelativeError::Add(double exact, double approximate) {
  error_ += (approximate - exact) * (approximate - exact);
  norm_ += exact * exact;
}

double RelativeError::value() const { return error_ == 0 ? 0 : std::sqrt(error_ / norm_); }

AttentionProbe::AttentionProbe(const model::Model& model, std::span<const CandidateCache> caches,
                               int64_t num_rows)
    : model_(model), caches_(caches), num_rows_(num_rows), errors_(caches.size()) {}

absl::Status AttentionProbe::OnLayer(const kv::LayerKv& layer,
                                     const kernels::ObservedRowsView& observed,
                                     const kernels::ObservedRowsView& following,
                                     kernels::Stream& stream) {
  Choose(following);
  RETURN_IF_ERROR(CompareOutputs(layer, stream));
  return CompareLogits(layer, stream);
}

// The same rows in every layer, the last one among them.
void AttentionProbe::Choose(const kernels::ObservedRowsView& following) {
  num_rows_ = std::min<int64_t>(num_rows_, following.num_rows);
  const int64_t width = int64_t{following.num_q_heads} * following.head_dim;
  q_.clear();
  for (int64_t i = 1; i <= num_rows_; ++i) {
    const float* row = following.q + (i * following.num_rows / num_rows_ - 1) * width;
    q_.insert(q_.end(), row, row + width);
  }
}

// out [rows, Hq, D]: attention of the chosen queries over the cache's prompt.
absl::Status AttentionProbe::Attend(const CandidateCache& cache, const kv::LayerKv& layer,
                                    kernels::Stream& stream, std::vector<float>& out) {
  const model::ModelConfig& config = model_.config();
  const kernels::DecodeAttentionShape shape{.num_q_heads = static_cast<int>(config.num_q_heads),
                                            .num_kv_heads = static_cast<int>(config.num_kv_heads),
                                            .head_dim = static_cast<int>(config.head_dim)};
  const kv::LayerPlan& plan = cache.decoded_plan(layer.layer);
  ASSIGN_OR_RETURN(const kernels::SequenceCache prompt,
                   kv::MapLayer(plan, cache.decoded_region(layer.layer)));
  const size_t bytes = static_cast<size_t>(kernels::DecodeAttentionScratchBytes(
      shape, static_cast<int>(plan.num_anchors), stream.num_threads()));
  if (scratch_.size() < bytes) scratch_ = AlignedBuffer(bytes);
  if (scratch_.data() == nullptr)
    return Exhausted("no memory to attend over layer %d", layer.layer);
  const std::vector<kernels::SequenceCache> rows(static_cast<size_t>(num_rows_), prompt);
  out.resize(q_.size());
  return kv::FromKernel(kernels::DecodeAttention(shape, num_rows_, rows.data(), q_.data(),
                                                 layer.rope, out.data(), scratch_.data(), stream),
                        "attention over a candidate");
}

absl::Status AttentionProbe::CompareOutputs(const kv::LayerKv& layer, kernels::Stream& stream) {
  const size_t dim = static_cast<size_t>(model_.config().head_dim);
  std::vector<float> full;
  RETURN_IF_ERROR(Attend(caches_.front(), layer, stream, full));
  std::vector<float> out;
  for (size_t i = 0; i < caches_.size(); ++i) {
    RETURN_IF_ERROR(Attend(caches_[i], layer, stream, out));
    for (size_t at = 0; at < out.size(); at += dim) {
      errors_[i].cosines.push_back(static_cast<float>(Cosine({&full[at], dim}, {&out[at], dim})));
    }
  }
  return absl::OkStatus();
}

absl::Status AttentionProbe::CompareLogits(const kv::LayerKv& layer, kernels::Stream& stream) {
  const model::ModelConfig& config = model_.config();
  const int64_t dim = config.head_dim;
  const int64_t seq_len = layer.kv.seq_len;
  const int64_t group = config.num_q_heads / config.num_kv_heads;
  ASSIGN_OR_RETURN(const std::vector<float> exact, KeysOf(caches_.front(), layer));
  std::vector<absl::Status> statuses(caches_.size());
  stream.ParallelFor(std::ssize(caches_), [&](int64_t i, int) {
    if (!KeepsEveryKey(caches_[i].decoded_plan(layer.layer).layout)) return;
    const absl::StatusOr<std::vector<float>> keys = KeysOf(caches_[i], layer);
    if (!keys.ok()) {
      statuses[i] = keys.status();
      return;
    }
    RelativeError error;
    for (int64_t row = 0; row < std::min(num_rows_, kLogitRows); ++row) {
      for (int64_t q_head = 0; q_head < config.num_q_heads; ++q_head) {
        const float* q = &q_[(row * config.num_q_heads + q_head) * dim];
        const int64_t first = q_head / group * seq_len * dim;
        for (int64_t at = first; at < first + seq_len * dim; at += dim) {
          error.Add(Dot(q, &exact[at], dim), Dot(q, &(*keys)[at], dim));
        }
      }
    }
    errors_[i].logit_errors.push_back(error.value());
  });
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace anchorage::eval
