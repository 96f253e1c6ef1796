// Scoring, assignment and utilities of AnchorKV (arXiv 2608.02901), for one layer at its end.
// P = seq_len - window_len prefix positions; G = num_q_heads / num_kv_heads. The observation rows
// lie inside the window (num_rows <= window_len), so each of them sees the whole prefix.
// kInvalidShape: sizes disagree, head_dim is no multiple of 8, a needed pointer is missing, or the
// RoPE table is too short. kUnsupported: head_dim above 256.
#pragma once

#include "kernels/observed_rows.h"
#include "kernels/stream.h"
#include "kernels/types.h"

namespace anchorage::kernels {

// Importance of each prefix position (eq. 14): softmax weight over all seq_len keys (post-RoPE,
// causal), mean over the num_rows * G observation rows of the KV head, then average pooling of
// width kappa (odd, at most 255) over [0, P), zero padding, always divided by kappa. The weights
// come from the rows' log-sum-exp, block by block; the W x S matrix is never built.
//   scores  [num_kv_heads, P]  f32, overwritten
Status ScorePrefix(const ActiveKvView& kv, const ObservedRowsView& observed, const RopeView& rope,
                   int window_len, int kappa, float* scores, Stream& stream);

// Nearest anchor of each row (eqs. 1, 2): a(i) = argmax_a |<x_i, x_a>| / (|x_i||x_a|), lowest index
// on ties, and the projection length <x_i, x_a>/|x_a| with its sign. Zero row or zero anchor:
// index 0, projection 0.
//   x        [count, head_dim] bf16        anchors  [num_anchors, head_dim] bf16
//   idx      [count] u16                   proj     [count] f32
Status AssignAnchors(int64_t count, int head_dim, int num_anchors, const Bf16* x,
                     const Bf16* anchors, uint16_t* idx, float* proj, Stream& stream);

// What one side of a layer's prefix is rebuilt from: gamma is the value the decoder will use.
struct AnchorSide {
  const Bf16* anchors = nullptr;  // [num_kv_heads, num_anchors, head_dim]
  const uint16_t* idx = nullptr;  // [num_kv_heads, P]
  const float* gamma = nullptr;   // [num_kv_heads, P]
};

// What is found out about one side of a layer's prefix. [num_kv_heads, P] f32 each, overwritten.
struct ResidualWorth {
  float* utility = nullptr;  // what a stored residual would be worth to the observation rows
  float* energy = nullptr;   // |r|^2
};

// How much a stored residual would help each prefix position (eq. 6), with the exact attention
// weight alpha and output y of the observation rows, summed over the head's rows and divided by
// their number, and how much there is to store:
//   u_key   = mean alpha^2 (q . R_t r_k)^2 / D * |V_t - y|^2
//   u_value = mean alpha^2 |r_v|^2
// An anchor's own r is what its storage lost. Residual vectors are recomputed, never kept.
Status ResidualUtilities(const ActiveKvView& kv, const ObservedRowsView& observed,
                         const RopeView& rope, int window_len, int num_anchors,
                         const AnchorSide& key, const AnchorSide& value,
                         const ResidualWorth& key_worth, const ResidualWorth& value_worth,
                         Stream& stream);

}  // namespace anchorage::kernels
