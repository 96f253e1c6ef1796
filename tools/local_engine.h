// Prefill and decode in one process, through the same schedule and the same step loop as the nodes:
// a prompt's layers land in a decode arena as they become final, without a network between.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "decode_node/core/engine.h"
#include "kernels/stream.h"
#include "kv/layer_sink.h"
#include "model/finish.h"
#include "model/model.h"
#include "prefill_node/core/accountant.h"
#include "prefill_node/core/engine.h"

namespace anchorage::tools {

struct LocalOptions {
  prefill::EngineOptions prefill;  // schedule, chunk, plan, stop ids, observer
  int threads = 1;
};

struct LocalRequest {
  std::vector<int32_t> prompt_ids;
  model::SamplingParams sampling;
  int64_t max_new = 1;
  kv::LayerSink* copy = nullptr;  // also gets every layer, after it has landed; may be null
  std::function<void(int32_t token)> on_token;  // as each is picked; may be empty
};

struct LocalResult {
  std::vector<int32_t> tokens;  // generated, the one that ended it included
  model::Finish finish = model::Finish::kNone;
  prefill::PrefillResult prefill;
  int64_t arena_bytes = 0;  // reserved for this request: its plan, to the byte
  int64_t decode_ns = 0;    // all steps after the first token
};

// One thread at a time. `model` and `clock` must outlive it.
class LocalEngine {
 public:
  // As prefill::Engine::Create and decode::Engine::Create.
  static absl::StatusOr<std::unique_ptr<LocalEngine>> Create(const model::Model& model,
                                                             const LocalOptions& options,
                                                             const Clock& clock);
  ~LocalEngine();

  // Runs the request to its end. The error of whichever stage failed.
  absl::StatusOr<LocalResult> Run(const LocalRequest& request);

  // The same for requests that share one prefill batch and one decode batch.
  absl::StatusOr<std::vector<LocalResult>> RunTogether(std::span<const LocalRequest> requests);

  prefill::MemoryAccountant& accountant() { return accountant_; }
  decode::ArenaUsage arena() const { return decode_->usage(); }

 private:
  class Listener;
  struct Attempt;

  LocalEngine(const model::Model& model, const Clock& clock, int threads);
  absl::Status RunStages(std::span<Attempt> attempts);
  absl::Status Reserve(Attempt& attempt);
  absl::Status Prefill(std::span<Attempt> attempts);

  const model::Model& model_;
  const Clock& clock_;
  kernels::Stream stream_;
  prefill::MemoryAccountant accountant_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<prefill::Engine> prefill_;
  std::unique_ptr<decode::Engine> decode_;
  uint64_t next_request_ = 1;
};

}  // namespace anchorage::tools
