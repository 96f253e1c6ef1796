// What a residual is after it has been coded, for every code of an ablation.
#pragma once

#include <span>

#include "eval/ablation/ablation.h"
#include "kernels/key_code.h"

namespace anchorage::eval {

// Bytes of one slot.
int64_t SlotBytes(ResidualCode code, int64_t head_dim);

// Adds to `row` [D] what the code of `residual` [D] stands for, with scales as they are stored
// (bf16). `num_codes`: 2 for a residual with a second code, chosen together with the first one
// where that is served, else of what the first one leaves. Overwrites `residual`. False when a
// coordinate or a scale is not finite.
bool AddCodedResidual(ResidualCode code, int num_codes, std::span<float> residual,
                      std::span<float> row);

// The same of a key with one code as it is served: `residual` [D] is after RoPE.
bool AddCodedKey(const kernels::KeyCode& code, std::span<const float> residual,
                 std::span<float> row);

}  // namespace anchorage::eval
