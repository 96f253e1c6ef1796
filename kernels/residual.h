// The 2-bit residual code of AnchorKV (arXiv 2608.02901, eq. 10): rotate by U = H diag(s)/sqrt(B),
// scale, and round to the 4-level Lloyd-Max quantiser of a unit Gaussian.
#pragma once

#include "kernels/stream.h"
#include "kernels/types.h"

namespace anchorage::kernels {

// Codes 0..3 stand for -kOuter, -kInner, +kInner, +kOuter.
inline constexpr float kInnerLevel = 0.4527800f;
inline constexpr float kOuterLevel = 1.5104176f;

// How the 2-bit codes of a D-vector lie in its D / 4 bytes.
//   kLinear  coordinate 4 j + i in bits 2 i of byte j: the serialised order of the paper layout
//   kPlanar  byte b holds coordinates b + i D/4 in bits 2 i: what the CPU decode kernel reads
enum class CodePacking : uint8_t { kLinear, kPlanar };

// x <- U x, or x <- U^T x. Block-diagonal Hadamard over the largest power-of-two divisor of dim,
// signs from one fixed seed shared by all layers and heads. x [dim] f32, in place. dim <= 1024.
void RotateResidual(int dim, float* x);
void UnrotateResidual(int dim, float* x);

// One code a byte -> four.  codes [dim] 0..3; packed [dim / 4]
void PackCodes(int dim, const uint8_t* codes, CodePacking packing, uint8_t* packed);

// The sign s[i] in {-1, +1} of coordinate i.
float ResidualSign(int i);

// Codes and least-squares scale of a rotated residual: minimises |z - scale level(c)|^2 exactly, by
// a scan over sorted |z|. A zero vector has scale 0. `scale` is rounded to bf16 before the codes
// are final when `scale_bf16`, so that they fit what is stored.
//   z [dim] f32 rotated; codes [dim / 4] bytes
float EncodeResidual(int dim, const float* z, CodePacking packing, bool scale_bf16, uint8_t* codes);

// Two codes for one rotated residual, z_i = scale level(c_i) + fine_scale level(f_i): sixteen
// levels a coordinate, chosen together. Scales start where they are best for a Gaussian and are
// fitted by least squares in turn with the codes; the codes are final for the scales rounded to
// bf16. Leaves about 0.010 of a Gaussian's energy where one code leaves 0.114. A zero vector has
// scales 0.
//   z [dim] f32 rotated; codes, fine_codes [dim / 4] bytes
struct TwoScales {
  float scale = 0;
  float fine_scale = 0;
};
TwoScales EncodeResidualTwice(int dim, const float* z, CodePacking packing, uint8_t* codes,
                              uint8_t* fine_codes);

// z[i] = scale * level(code_i): rotated domain.
void DecodeResidual(int dim, const uint8_t* codes, float scale, CodePacking packing, float* z);

// Rewrites `count` code vectors from one packing to the other, in place.
void RepackCodes(int64_t count, int dim, CodePacking from, CodePacking to, uint8_t* codes);

}  // namespace anchorage::kernels
