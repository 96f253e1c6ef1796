// Runs prompts through the model, layer by layer, and hands each layer's cache over the moment it
// is final (TideKV, arXiv 2610.24499, Algorithm 1).
//
//   auto batch = engine->Start(requests);
//   while (!batch->done()) batch->Step();   // one layer of every prompt; between two steps the
//   auto results = batch->TakeResults();    // batch may be put aside for another one
//
// At any instant full-prompt K and V are resident for at most one layer of one prompt, activations
// for one chunk, and beside them only bridges and finished layers. A batch that is put aside holds
// its bridges and finished layers alone. The controls (chunk-major, one-shot) run a whole prompt in
// one step and keep every layer's K and V.
//
// The bits of a prompt's result depend on the prompt, the model and the plan alone: not on the
// chunk size, the threads, the schedule or what shares its batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "kernels/stream.h"
#include "kv/compressor.h"
#include "kv/plan/plan.h"
#include "model/model.h"
#include "model/packed_layer.h"
#include "model/prefill_layer.h"
#include "prefill_node/core/accountant.h"
#include "prefill_node/core/request.h"
#include "prefill_node/core/schedule.h"

namespace anchorage::prefill {

// Shorter prompts go through the decode products: unpacking a layer would cost more than it saves.
inline constexpr int64_t kPackedProductTokens = 64;
// Shorter prompts hand over all layers at the end.
inline constexpr int64_t kSendAtEndTokens = 256;

struct EngineOptions {
  Schedule schedule = Schedule::kLayerMajor;
  int64_t chunk_tokens = 2048;  // C
  kv::PlanOptions plan;
  std::vector<int32_t> model_stop_ids;                 // EOS and its like
  std::function<void(const ScheduleEvent&)> observer;  // on the thread of Step; may be empty
};

class Engine;

// One prompt on its way through the layers.
class PromptRun;

// Prompts that pass through each unpacked layer together. Use from one thread; one batch of an
// engine steps at a time.
class Batch {
 public:
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  bool done() const;
  void Step();
  // In the order of the requests. Precondition: done().
  std::vector<PrefillResult> TakeResults();

 private:
  friend class Engine;
  Batch(Engine& engine, std::span<const PrefillRequest> requests);

  Engine& engine_;
  std::vector<std::unique_ptr<PromptRun>> prompts_;
  int64_t next_layer_ = 0;
};

// `model`, `accountant`, `clock` and `stream` must outlive the engine, and the engine its batches.
class Engine {
 public:
  // InvalidArgument: options that make no sense. ResourceExhausted: no memory.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const model::Model& model,
                                                        const EngineOptions& options,
                                                        MemoryAccountant& accountant,
                                                        const Clock& clock,
                                                        kernels::Stream& stream);

  // A bad request (empty, longer than the context, an unknown token) fails alone.
  std::unique_ptr<Batch> Start(std::span<const PrefillRequest> requests);

  // Start and step to the end.
  std::vector<PrefillResult> Run(std::span<const PrefillRequest> requests);

  const EngineOptions& options() const { return options_; }

 private:
  friend class Batch;
  friend class PromptRun;
  Engine(const model::Model& model, const EngineOptions& options, MemoryAccountant& accountant,
         const Clock& clock, kernels::Stream& stream);

  // What only the step that runs needs: shared by all batches, freed when there are none.
  struct WorkingSet {
    std::optional<model::ActiveKv> kv;
    int64_t kv_tokens = 0;
    std::optional<model::PrefillScratch> scratch;
    int64_t scratch_rows = 0;
    int64_t scratch_tokens = 0;
    kv::Workspace workspace;
    MemoryAccountant::Charge kv_charge;
    MemoryAccountant::Charge scratch_charge;
    MemoryAccountant::Charge workspace_charge;
  };

  absl::StatusOr<model::ActiveKv*> FitActiveKv(int64_t tokens);
  absl::StatusOr<model::PrefillScratch*> FitScratch(int64_t rows, int64_t tokens);
  absl::StatusOr<const model::PackedLayer*> Unpack(int64_t layer);
  absl::StatusOr<kv::CompressedLayer> Compress(const kv::LayerKv& layer,
                                               const model::ObservedRows& observed,
                                               const kv::LayerPlan& plan,
                                               kernels::CodePacking packing);
  void Observe(const ScheduleEvent& event) const {
    if (options_.observer) options_.observer(event);
  }

  const model::Model& model_;
  const EngineOptions options_;
  MemoryAccountant& accountant_;
  const Clock& clock_;
  kernels::Stream& stream_;
  const std::unique_ptr<kv::LayerCompressor> compressor_;
  MemoryAccountant::Charge weights_charge_;
  std::optional<model::PackedLayer> packed_;
  WorkingSet working_;
  int64_t num_batches_ = 0;
};

}  // namespace anchorage::prefill
