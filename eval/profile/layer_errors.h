// How much each layer's compression costs by itself: the measurement behind a profile
// (kv/plan/profile.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "decode_node/core/batch_step.h"
#include "kernels/stream.h"
#include "kv/compressed_layer.h"
#include "kv/plan/plan.h"
#include "model/model.h"

namespace anchorage::eval {

// One text's errors. The text is prefilled once and each layer compressed at every rate; then the
// tokens behind the prompt are forced through caches in which one layer is compressed and all
// others are not.
class LayerErrors {
 public:
  // ids [seq_len + forced + 1], a prompt and what follows it. `model`, `step` and `stream` must
  // outlive it. InvalidArgument: `seq_len` is too short to be compressed, or the options are not
  // those of the compact layout. ResourceExhausted: no memory for the caches.
  static absl::StatusOr<std::unique_ptr<LayerErrors>> Create(
      const model::Model& model, const kv::PlanOptions& options, std::vector<int64_t> millibits,
      std::span<const int32_t> ids, int64_t seq_len, decode::BatchStep& step,
      kernels::Stream& stream);

  // Mean divergence of the next token's distribution, full cache || the cache with this layer
  // compressed at each rate, in nats. [rates]
  absl::StatusOr<std::vector<double>> Measure(int64_t layer);

 private:
  class Keeper;

  LayerErrors(const model::Model& model, std::vector<int64_t> millibits,
              std::span<const int32_t> ids, int64_t seq_len, decode::BatchStep& step);

  absl::Status FindYardstick();
  // Forces the tokens through caches of these plans, whose layers are copies of the kept ones;
  // visit(position, row, logits [vocab]).
  absl::Status Force(std::span<const kv::RequestPlan> plans, int64_t layer,
                     const std::function<void(size_t, size_t, std::span<const float>)>& visit);
  std::span<const std::byte> Kept(int64_t layer, size_t row, bool compressed) const;

  const model::Model& model_;
  std::vector<int64_t> millibits_;
  std::vector<int32_t> ids_;
  int64_t seq_len_ = 0;
  decode::BatchStep& step_;
  std::vector<kv::CompressedLayer> full_;                     // [layers]
  std::vector<std::vector<kv::CompressedLayer>> compressed_;  // [layers][rates]
  std::vector<std::vector<double>> yardstick_;                // [forced][vocab] log-probabilities
};

}  // namespace anchorage::eval
