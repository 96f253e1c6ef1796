// kernels/prefill_attention.h in plain loops and double precision: the oracle.
#pragma once

#include "kernels/prefill_attention.h"
#include "kernels/types.h"

namespace anchorage::kernels::reference {

// The arrays of PrefillAttention; out and lse in double, lse may be null.
void PrefillAttention(const PrefillAttentionShape& shape, const float* q, const Bf16* k,
                      const Bf16* v, const RopeView& rope, double* out, double* lse);

}  // namespace anchorage::kernels::reference
