// One prompt on its way through the layers: its bridge of hidden states, what it has finished, and
// its result. Private to the engine and its batches.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/aligned_buffer.h"
#include "kv/compressed_layer.h"
#include "kv/plan/plan.h"
#include "model/prefill_layer.h"
#include "prefill_node/core/accountant.h"
#include "prefill_node/core/engine.h"
#include "prefill_node/core/request.h"

namespace anchorage::prefill {

class PromptRun {
 public:
  // Checks the request, plans it and embeds its tokens. A bad one is finished at once.
  PromptRun(Engine& engine, const PrefillRequest& request, int64_t index);

  // The result is final.
  bool finished() const { return finished_; }
  bool packed_products() const { return seq_len_ >= kPackedProductTokens; }
  // Rows of its largest chunk.
  int64_t chunk_rows() const;

  // Layer-major: all chunks of a layer, then its end. `packed`: the unpacked layer, null where
  // no prompt needs it, or why there is none.
  void RunLayer(int64_t layer, const absl::StatusOr<const model::PackedLayer*>& packed,
                int64_t unpack_ns);
  // The controls: chunk by chunk through all layers, which stay resident, then every layer's end.
  void RunResident();
  // After the last layer: the first token.
  void Finish();

  PrefillResult TakeResult() { return std::move(result_); }

 private:
  absl::Status Begin();
  absl::Status RunChunks(int64_t layer, const model::PackedLayer* packed);
  absl::Status RunChunk(int64_t layer, int64_t start, const model::PackedLayer* packed,
                        model::ActiveKv& kv, model::ObservedRows& observed,
                        model::PrefillScratch& scratch);
  absl::Status EndLayer(int64_t layer, const model::ActiveKv& kv,
                        const model::ObservedRows& observed);
  absl::Status ResidentLayers();
  absl::Status HandOver(kv::CompressedLayer&& cache);
  absl::Status SampleFirst();
  absl::Status CheckCancelled() const;
  absl::StatusOr<model::ObservedRows> NewObservedRows(int64_t layer) const;
  float* HiddenSlot(int64_t start);
  void End(const absl::Status& status);

  Engine& engine_;
  const PrefillRequest request_;
  const int64_t index_;
  const int64_t seq_len_;
  const int64_t begin_ns_;
  kv::RequestPlan plan_;
  // Hidden states of the prompt between two layers; of one chunk alone where no later layer needs
  // the others.
  AlignedBuffer bridge_;
  int64_t bridge_rows_ = 0;
  bool whole_bridge_ = false;
  MemoryAccountant::Charge bridge_charge_;
  std::vector<kv::CompressedLayer> held_;  // of a short prompt, until the end
  PrefillResult result_;
  bool finished_ = false;
};

}  // namespace anchorage::prefill
