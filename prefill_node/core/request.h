// What a prefill is asked for, and what it answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/aligned_buffer.h"
#include "kernels/residual.h"
#include "kv/layer_sink.h"
#include "model/sampler.h"

namespace anchorage::prefill {

// One prompt. What the pointers and the span name must outlive the run.
struct PrefillRequest {
  std::span<const int32_t> prompt_ids;
  model::SamplingParams sampling;  // of the first token
  kernels::CodePacking packing = kernels::CodePacking::kPlanar;
  // Takes each layer the moment it is final; prompts under kSendAtEndTokens at the end. An error of
  // its ends this prompt.
  kv::LayerSink* sink = nullptr;
  const std::atomic<bool>* cancelled = nullptr;  // looked at between chunks; may be null
  int64_t logit_rows = 0;    // logits of that many last positions are handed back
  bool keep_hidden = false;  // hand back the last layer's hidden states of the whole prompt
};

// Nanoseconds of one layer.
struct LayerTiming {
  int64_t unpack_ns = 0;    // of the weights, once for the whole batch
  int64_t compute_ns = 0;   // this prompt's forward pass
  int64_t compress_ns = 0;  // this prompt's layer end
};

struct PrefillResult {
  absl::Status status;  // Cancelled, or why this prompt failed; the rest is then incomplete
  int32_t first_token = -1;
  std::vector<float> logits;  // [logit_rows, vocab], before sampling changed them
  AlignedBuffer hidden;       // [S, d] f32 when keep_hidden
  std::vector<LayerTiming> layers;
  int64_t total_ns = 0;          // from Start to the first token
  int64_t compressed_bytes = 0;  // of all layers, exact
};

}  // namespace anchorage::prefill
