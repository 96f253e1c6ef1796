// kernels/residual.h in plain loops and double precision: the oracle.
#pragma once

#include "kernels/residual.h"

namespace anchorage::kernels::reference {

// U x and U^T x by the matrix: U[i][j] = (-1)^popcount(i & j) s_j / sqrt(B) inside each block of B.
void RotateResidual(int dim, double* x);
void UnrotateResidual(int dim, double* x);

// |z - scale level(c)|^2 of the best codes for this scale.
double Distortion(int dim, const double* z, double scale);

// The scale that minimises Distortion over all scales: for each number of outer levels the best
// scale of that split, measured by Distortion itself.
double BestScale(int dim, const double* z);

// Distance from z to the nearest of the sixteen sums scale level(c) + fine_scale level(f).
double NearestOfTwo(double z, const TwoScales& scales);

// scale level(c) of coordinate i.
double DecodeCoordinate(int dim, const uint8_t* codes, double scale, CodePacking packing, int i);

}  // namespace anchorage::kernels::reference
