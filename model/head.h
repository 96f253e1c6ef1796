// From the last layer's hidden states to scores of the next token.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/stream.h"
#include "model/model.h"

namespace anchorage::model {

// logits[i] = output weights x RMSNorm(hidden[i]).
//   hidden  [rows, d]      f32
//   normed  [rows, d]      f32 scratch; may be `hidden` itself
//   logits  [rows, vocab]  f32, overwritten
// Row-invariant.
absl::Status ComputeLogits(const Model& model, int64_t rows, const float* hidden, float* normed,
                           float* logits, kernels::Stream& stream);

}  // namespace anchorage::model
