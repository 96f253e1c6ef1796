// kernels/key_code.h in plain loops and double precision: the oracle.
#pragma once

#include "kernels/key_code.h"

namespace anchorage::kernels::reference {

// x = s T^T M^T lev(c).  x [head_dim] overwritten
void DecodeKey(const KeyCode& code, const uint8_t* codes, double scale, CodePacking packing,
               double* x);

// |x - s T^T M^T lev(c)|^2 of the best symbols for this scale, each found by trying all.
double KeyDistortion(const KeyCode& code, const double* x, double scale);

}  // namespace anchorage::kernels::reference
