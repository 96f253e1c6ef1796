#include "model/prefill_layer.h"

#include <algorithm>
#include <cstring>

#include "common/status_macros.h"
#include "kernels/elementwise.h"
#include "kernels/prefill_attention.h"
#include "kv/kernel_status.h"

namespace anchorage::model {

using kernels::Bf16;

int64_t ActiveKv::BytesFor(const ModelConfig& config, int64_t tokens) {
  return 2 * config.kv_dim() * tokens * static_cast<int64_t>(sizeof(Bf16));
}

absl::StatusOr<ActiveKv> ActiveKv::Create(const ModelConfig& config, int64_t max_tokens) {
  ActiveKv kv;
  kv.buffer_ = AlignedBuffer(static_cast<size_t>(BytesFor(config, max_tokens)));
  if (kv.buffer_.data() == nullptr) {
    return Exhausted("no memory for the active layer's K and V of %d tokens", max_tokens);
  }
  kv.num_kv_heads_ = config.num_kv_heads;
  kv.head_dim_ = config.head_dim;
  kv.max_tokens_ = max_tokens;
  return kv;
}

absl::Status ActiveKv::Begin(int64_t seq_len) {
  if (seq_len < 1 || seq_len > max_tokens_) {
    return Invalid("%d tokens do not fit the room for %d", seq_len, max_tokens_);
  }
  seq_len_ = seq_len;
  return absl::OkStatus();
}

void ActiveKv::Store(int64_t start, int64_t rows, const float* k, const float* v,
                     kernels::Stream& stream) {
  Bf16* keys = buffer_.as<Bf16>();
  Bf16* values = keys + num_kv_heads_ * seq_len_ * head_dim_;
  stream.ParallelFor(num_kv_heads_, [&](int64_t head, int) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t from = (row * num_kv_heads_ + head) * head_dim_;
      const int64_t to = (head * seq_len_ + start + row) * head_dim_;
      kernels::ToBf16Row(head_dim_, k + from, keys + to);
      kernels::ToBf16Row(head_dim_, v + from, values + to);
    }
  });
}

kernels::ActiveKvView ActiveKv::view() const {
  const Bf16* keys = buffer_.as<Bf16>();
  return {static_cast<int>(num_kv_heads_),
          static_cast<int>(head_dim_),
          seq_len_,
          seq_len_,
          keys,
          keys + num_kv_heads_ * seq_len_ * head_dim_};
}

absl::StatusOr<ObservedRows> ObservedRows::Create(const ModelConfig& config, int64_t seq_len,
                                                  int64_t window_len) {
  ObservedRows rows;
  rows.num_q_heads_ = config.num_q_heads;
  rows.head_dim_ = config.head_dim;
  rows.num_rows_ = std::min(seq_len, window_len);
  rows.first_ = seq_len - rows.num_rows_;
  const int64_t floats = rows.num_rows_ * (2 * config.q_dim() + config.num_q_heads);
  rows.buffer_ = AlignedBuffer(static_cast<size_t>(floats) * sizeof(float));
  if (floats > 0 && rows.buffer_.data() == nullptr) {
    return Exhausted("no memory for %d observed rows", rows.num_rows_);
  }
  return rows;
}

void ObservedRows::Keep(int64_t start, int64_t rows, const float* q, const float* lse,
                        const float* out) {
  const int64_t begin = std::max(start, first_);
  const int64_t count = start + rows - begin;
  if (count <= 0 || num_rows_ == 0) return;
  const int64_t q_dim = num_q_heads_ * head_dim_;
  const auto copy = [&](float* all, const float* chunk, int64_t width) {
    std::memcpy(all + (begin - first_) * width, chunk + (begin - start) * width,
                static_cast<size_t>(count * width) * sizeof(float));
  };
  float* all_q = buffer_.as<float>();
  copy(all_q, q, q_dim);
  copy(all_q + num_rows_ * q_dim, out, q_dim);
  copy(all_q + 2 * num_rows_ * q_dim, lse, num_q_heads_);
}

kernels::ObservedRowsView ObservedRows::view() const {
  const int64_t q_dim = num_q_heads_ * head_dim_;
  const float* all_q = buffer_.as<float>();
  return {.num_rows = static_cast<int>(num_rows_),
          .num_q_heads = static_cast<int>(num_q_heads_),
          .head_dim = static_cast<int>(head_dim_),
          .q = all_q,
          .lse = all_q + 2 * num_rows_ * q_dim,
          .out = all_q + num_rows_ * q_dim};
}

namespace {

kernels::PrefillAttentionShape AttentionShape(const ModelConfig& config, int64_t start,
                                              int64_t rows, int64_t capacity) {
  return {.num_q_heads = static_cast<int>(config.num_q_heads),
          .num_kv_heads = static_cast<int>(config.num_kv_heads),
          .head_dim = static_cast<int>(config.head_dim),
          .q_start = start,
          .q_len = rows,
          .kv_capacity = capacity};
}

}  // namespace

absl::StatusOr<PrefillScratch> PrefillScratch::Create(const ModelConfig& config, int64_t max_rows,
                                                      int64_t max_tokens, int num_threads) {
  PrefillScratch scratch;
  ASSIGN_OR_RETURN(scratch.layer, LayerScratch::Create(config, max_rows));
  scratch.lse = AlignedBuffer(static_cast<size_t>(max_rows * config.num_q_heads) * sizeof(float));
  const kernels::PrefillAttentionShape shape =
      AttentionShape(config, max_tokens - max_rows, max_rows, max_tokens);
  scratch.attention =
      AlignedBuffer(static_cast<size_t>(kernels::PrefillAttentionScratchBytes(shape, num_threads)));
  if (scratch.lse.data() == nullptr || scratch.attention.data() == nullptr) {
    return Exhausted("no memory for the activations of %d rows", max_rows);
  }
  return scratch;
}

absl::Status PrefillChunk(const Model& model, const LayerMatrices& matrices, int64_t start,
                          int64_t rows, float* hidden, ActiveKv& kv, ObservedRows& observed,
                          PrefillScratch& scratch, kernels::Stream& stream) {
  const ModelConfig& config = model.config();
  LayerScratch& layer = scratch.layer;
  if (rows > layer.max_rows) {
    return Invalid("%d rows in a chunk, more than %d", rows, layer.max_rows);
  }
  RETURN_IF_ERROR(ProjectQkv(config, matrices, rows, hidden, layer, stream));
  kv.Store(start, rows, layer.k, layer.v, stream);
  RETURN_IF_ERROR(
      kv::FromKernel(kernels::ApplyRope(rows, static_cast<int>(config.num_q_heads), config.q_dim(),
                                        model.rope(), start, nullptr, layer.q, stream),
                     "ApplyRope"));
  const kernels::ActiveKvView view = kv.view();
  RETURN_IF_ERROR(kv::FromKernel(
      kernels::PrefillAttention(AttentionShape(config, start, rows, view.capacity), layer.q, view.k,
                                view.v, model.rope(), layer.attention, scratch.lse.as<float>(),
                                scratch.attention.data(), stream),
      "PrefillAttention"));
  observed.Keep(start, rows, layer.q, scratch.lse.as<float>(), layer.attention);
  return FinishLayer(config, matrices, rows, hidden, layer, stream);
}

}  // namespace anchorage::model
