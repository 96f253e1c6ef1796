// One chunk of one layer of a prompt: the unit of work of every prefill schedule.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/aligned_buffer.h"
#include "kernels/observed_rows.h"
#include "kernels/stream.h"
#include "model/layer_forward.h"
#include "model/layer_scratch.h"
#include "model/model.h"

namespace anchorage::model {

// A layer's K (before RoPE) and V over one prompt, bf16 [H, seq_len, D], filled chunk by chunk.
// Reusable for the next layer or for another prompt, whatever its length.
class ActiveKv {
 public:
  // Room for prompts of up to `max_tokens`. ResourceExhausted: no memory.
  static absl::StatusOr<ActiveKv> Create(const ModelConfig& config, int64_t max_tokens);
  static int64_t BytesFor(const ModelConfig& config, int64_t tokens);

  // Begins a layer of a prompt of `seq_len` tokens; InvalidArgument when it is longer than the
  // room.
  absl::Status Begin(int64_t seq_len);

  // Rounds rows start .. start + rows - 1 to bf16. k, v [rows, H D] f32.
  void Store(int64_t start, int64_t rows, const float* k, const float* v, kernels::Stream& stream);

  kernels::ActiveKvView view() const;
  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }

 private:
  AlignedBuffer buffer_;
  int64_t num_kv_heads_ = 0;
  int64_t head_dim_ = 0;
  int64_t max_tokens_ = 0;
  int64_t seq_len_ = 0;
};

// The last rows of a prompt in one layer, gathered across chunks, whichever chunks they fall into.
class ObservedRows {
 public:
  // The last min(window_len, seq_len) rows. ResourceExhausted: no memory.
  static absl::StatusOr<ObservedRows> Create(const ModelConfig& config, int64_t seq_len,
                                             int64_t window_len);

  // Copies those of the chunk's rows that are observed.
  //   q, out [rows, Hq, D]; lse [rows, Hq]; first row at absolute position `start`
  void Keep(int64_t start, int64_t rows, const float* q, const float* lse, const float* out);

  kernels::ObservedRowsView view() const;
  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }

 private:
  AlignedBuffer buffer_;
  int64_t num_q_heads_ = 0;
  int64_t head_dim_ = 0;
  int64_t first_ = 0;  // absolute position of the first observed row
  int64_t num_rows_ = 0;
};

// Activations of a chunk of up to `max_rows` rows.
struct PrefillScratch {
  // ResourceExhausted: no memory. `max_tokens`: the longest prompt.
  static absl::StatusOr<PrefillScratch> Create(const ModelConfig& config, int64_t max_rows,
                                               int64_t max_tokens, int num_threads);

  int64_t bytes() const {
    return layer.bytes() + static_cast<int64_t>(lse.size() + attention.size());
  }

  LayerScratch layer;
  AlignedBuffer lse;        // [max_rows, Hq] f32
  AlignedBuffer attention;  // what the attention kernel asks for
};

// Runs rows start .. start + rows - 1 of a prompt through a layer, against the layer's K and V of
// the rows before them, which must have run already.
//   hidden [rows, d] f32: the chunk's slot of the bridge, read and replaced
// Row-invariant: neither chunk boundaries nor threads change a bit.
absl::Status PrefillChunk(const Model& model, const LayerMatrices& matrices, int64_t start,
                          int64_t rows, float* hidden, ActiveKv& kv, ObservedRows& observed,
                          PrefillScratch& scratch, kernels::Stream& stream);

}  // namespace anchorage::model
