// One request in the decode batch: its cache, its tokens so far, and whether it should go on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "decode_node/core/arena.h"
#include "kernels/decode_attention.h"
#include "model/finish.h"
#include "model/sampler.h"

namespace anchorage::decode {

// What the router asked for.
struct SequenceRequest {
  AttemptId id;
  std::string request_id;  // for logs
  int64_t prompt_tokens = 0;
  int64_t max_new = 0;
  model::SamplingParams sampling;
  std::vector<int32_t> prompt_ids;  // empty unless sampling needs them
};

// Owned by the engine; touched by the step loop alone, except for Cancel.
class Sequence {
 public:
  // `memory` holds every layer, verified. `first_token` was sampled by prefill.
  Sequence(SequenceRequest request, std::shared_ptr<Grant> memory, int32_t first_token);

  const SequenceRequest& request() const { return request_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }

  // Absolute position of the last token, which the next step feeds to the model.
  int64_t position() const { return request_.prompt_tokens + num_cached_; }

  // Makes room for the next token's K and V in every layer. Errors as Grant::TakeBlock.
  absl::Status PrepareStep();

  // Where the token being fed stores its key and value in `layer`, K/V of head h at
  // [h * 32 * D]: head stride of a block.
  kernels::Bf16* key_slot(int64_t layer);
  kernels::Bf16* value_slot(int64_t layer);

  // The cache of `layer` including the token being fed.
  kernels::SequenceCache cache(int64_t layer) const;

  // The step is done: the fed token is cached and `token` follows it.
  void Append(int32_t token);

  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }  // any thread
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  SequenceRequest request_;
  std::shared_ptr<Grant> memory_;
  std::vector<kernels::SequenceCache> prefix_;             // of each layer
  std::vector<std::vector<const kernels::Bf16*>> blocks_;  // [layer][block]
  std::vector<int32_t> tokens_;  // generated; the last one is not cached yet
  int64_t num_cached_ = 0;       // generated tokens whose K and V are stored
  std::atomic<bool> cancelled_{false};
};

}  // namespace anchorage::decode
