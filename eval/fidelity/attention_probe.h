// What compression does to attention itself, layer by layer: queries of the tokens behind a prompt,
// as the uncompressed prefill has them, attend to the prompt's cache in each of its forms. The
// generated tokens are left out, so what differs is the compressed part alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/aligned_buffer.h"
#include "eval/candidate_cache.h"
#include "eval/prefill_once.h"
#include "model/model.h"

namespace anchorage::eval {

// Cosine of two vectors; 1 when both are zero, 0 when one is.
double Cosine(std::span<const float> a, std::span<const float> b);

// |approximate - exact| / |exact| over all that was added, in Euclidean norm.
class RelativeError {
 public:
  void Add(double exact, double approximate);
  double value() const;  // 0 when nothing but zeros was added, on either side

 private:
  double error_ = 0;
  double norm_ = 0;
};

// One cache against the full one.
struct AttentionError {
  std::vector<float> cosines;  // [layers, rows, q heads] of attention outputs
  // Of q . k over the prompt's positions; [layers], empty for a layout that does not keep a key for
  // each position.
  std::vector<double> logit_errors;
};

class AttentionProbe : public LayerWitness {
 public:
  // `caches`, the full one first, must outlive it. `num_rows`: how many of the tokens behind the
  // prompt are asked, at even distances; at least 1.
  AttentionProbe(const model::Model& model, std::span<const CandidateCache> caches,
                 int64_t num_rows);

  absl::Status OnLayer(const kv::LayerKv& layer, const kernels::ObservedRowsView& observed,
                       const kernels::ObservedRowsView& following,
                       kernels::Stream& stream) override;

  // One for each cache.
  std::span<const AttentionError> errors() const { return errors_; }

 private:
  void Choose(const kernels::ObservedRowsView& following);
  absl::Status Attend(const CandidateCache& cache, const kv::LayerKv& layer,
                      kernels::Stream& stream, std::vector<float>& out);
  absl::Status CompareOutputs(const kv::LayerKv& layer, kernels::Stream& stream);
  absl::Status CompareLogits(const kv::LayerKv& layer, kernels::Stream& stream);

  const model::Model& model_;
  std::span<const CandidateCache> caches_;
  int64_t num_rows_;
  std::vector<float> q_;  // [rows, Hq, D] of the layer at hand
  AlignedBuffer scratch_;
  std::vector<AttentionError> errors_;
};

}  // namespace anchorage::eval
