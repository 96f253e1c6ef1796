// kernels/anchor.h in plain loops and double precision: the oracle.
#pragma once

#include <vector>

#include "kernels/anchor.h"

namespace anchorage::kernels::reference {

// The softmax weights of one query head's observation row over all seq_len keys, causal.
std::vector<double> RowWeights(const ActiveKvView& kv, const ObservedRowsView& observed,
                               const RopeView& rope, int row, int q_head);

// Natural log-sum-exp and output of each observation row: what attention would have returned.
void ObserveRows(const ActiveKvView& kv, const ObservedRowsView& observed, const RopeView& rope,
                 double* lse, double* out);

// scores [num_kv_heads, P]. Recomputes the softmax; observed.lse is not read.
void ScorePrefix(const ActiveKvView& kv, const ObservedRowsView& observed, const RopeView& rope,
                 int window_len, int kappa, double* scores);

// <x, anchor> / |anchor|; 0 for a zero anchor.
double Projection(int head_dim, const Bf16* x, const Bf16* anchor);

// The index of AssignAnchors for one row.
int NearestAnchor(int head_dim, int num_anchors, const Bf16* x, const Bf16* anchors);

// u_key, u_value [num_kv_heads, P]. Recomputes weights and outputs.
void ResidualUtilities(const ActiveKvView& kv, const ObservedRowsView& observed,
                       const RopeView& rope, int window_len, int num_anchors, const AnchorSide& key,
                       const AnchorSide& value, double* u_key, double* u_value);

// |r_t|^2 of one side, whose rows are `x` (the layer's K or V).
double ResidualEnergy(const ActiveKvView& kv, const AnchorSide& side, const Bf16* x, int head,
                      int window_len, int num_anchors, int64_t t);

}  // namespace anchorage::kernels::reference
