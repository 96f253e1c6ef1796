// One layer's step for a batch of new tokens, straight from the stored weights. Where the cache is
// and how it is attended to is the caller's business.
//
//   hidden = embedding of each row's token                       (EmbedTokens)
//   for each layer: DecodeLayer(model, layer, rows, positions, hidden, attend, scratch, stream)
//   logits = ComputeLogits(model, rows, hidden, ...)             (model/head.h)
//
// Row-invariant: a row's result depends on that row, its position and what `attend` answers for it.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/stream.h"
#include "model/layer_scratch.h"
#include "model/model.h"

namespace anchorage::model {

// Called once per layer with this step's rows. Appends each row's key and value to its sequence's
// cache, then attends with its queries over the cache including the new entry.
//   q    [rows, Hq, D]  f32 after RoPE
//   k    [rows, H, D]   f32 after RoPE
//   v    [rows, H, D]   f32
//   out  [rows, Hq, D]  f32, to be overwritten
using AttentionFn = absl::FunctionRef<absl::Status(int64_t layer, int64_t rows, const float* q,
                                                   const float* k, const float* v, float* out)>;

// hidden[i] = embedding of ids[i]. hidden [count, d]. InvalidArgument: an id outside the
// vocabulary.
absl::Status EmbedTokens(const Model& model, const int32_t* ids, int64_t count, float* hidden);

// Runs layer `layer` for `rows` rows, row i at absolute position positions[i]:
//   hidden [rows, d] f32, read and replaced.
// InvalidArgument: more rows than the scratch holds, or a position outside the context. An error of
// `attend` is handed on; `hidden` is then undefined.
absl::Status DecodeLayer(const Model& model, int64_t layer, int64_t rows, const int32_t* positions,
                         float* hidden, AttentionFn attend, LayerScratch& scratch,
                         kernels::Stream& stream);

}  // namespace anchorage::model
