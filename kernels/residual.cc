#include "kernels/residual.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

namespace anchorage::kernels {
namespace {

constexpr int kMaxDim = 1024;
// Midway between the two magnitudes, in units of the scale.
constexpr float kThreshold = 0.5f * (kInnerLevel + kOuterLevel);
constexpr std::array<float, 4> kLevels = {-kOuterLevel, -kInnerLevel, kInnerLevel, kOuterLevel};

// Sign i is the top bit of the i-th output of splitmix64 from one seed.
constexpr std::array<float, kMaxDim> MakeSigns() {
  std::array<float, kMaxDim> signs = {};
  uint64_t state = 0x616e63686f726b76;
  for (float& sign : signs) {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    sign = (z >> 63) != 0 ? -1.0f : 1.0f;
  }
  return signs;
}
constexpr std::array<float, kMaxDim> kSigns = MakeSigns();

int BlockSize(int dim) { return dim & -dim; }

// Unnormalised Walsh-Hadamard transform of each block of x; its own inverse up to the block size.
void HadamardBlocks(int dim, float* x) {
  const int block = BlockSize(dim);
  for (int half = 1; half < block; half *= 2) {
    for (int start = 0; start < dim; start += 2 * half) {
      float* low = x + start;
      float* high = low + half;
      for (int i = 0; i < half; ++i) {
        const float a = low[i];
        const float b = high[i];
        low[i] = a + b;
        high[i] = a - b;
      }
    }
  }
}

// Four codes a byte -> one.
void UnpackCodes(int dim, const uint8_t* packed, CodePacking packing, uint8_t* codes) {
  const int bytes = dim / 4;
  const int in_byte = packing == CodePacking::kLinear ? 1 : bytes;
  const int next_byte = packing == CodePacking::kLinear ? 4 : 1;
  for (int b = 0; b < bytes; ++b) {
    uint8_t* first = codes + b * next_byte;
    for (int i = 0; i < 4; ++i) first[i * in_byte] = (packed[b] >> (2 * i)) & 3;
  }
}

uint8_t CodeOf(float z, float threshold) {
  const int outer = std::fabs(z) > threshold ? 1 : 0;
  return static_cast<uint8_t>(z < 0.0f ? 1 - outer : 2 + outer);
}

// The best scale over all splits of sorted |z| into m outer and dim - m inner magnitudes. With
// z.l the sum of |z_i| level_i and l.l that of level_i^2, the best scale of a split is z.l / l.l
// and it removes (z.l)^2 / l.l from |z|^2.
float LeastSquaresScale(int dim, const float* z) {
  std::array<float, kMaxDim> magnitudes;
  double total = 0.0;
  for (int i = 0; i < dim; ++i) {
    magnitudes[i] = std::fabs(z[i]);
    total += magnitudes[i];
  }
  std::sort(magnitudes.begin(), magnitudes.begin() + dim, std::greater<>());

  constexpr double kInner = kInnerLevel;
  constexpr double kOuter = kOuterLevel;
  double outer_sum = 0.0;
  double best_gain = -1.0;
  double best_scale = 0.0;
  for (int m = 0; m <= dim; ++m) {
    const double dot = kOuter * outer_sum + kInner * (total - outer_sum);
    const double norm = m * kOuter * kOuter + (dim - m) * kInner * kInner;
    const double gain = dot * dot / norm;
    if (gain > best_gain) {
      best_gain = gain;
      best_scale = dot / norm;
    }
    if (m < dim) outer_sum += magnitudes[m];
  }
  return static_cast<float>(best_scale);
}

// ---- Two codes ----

// Best for a unit Gaussian: 0.0118 of its energy is left.
constexpr double kFirstScale = 1.34;
constexpr double kFirstFineScale = 0.335;
// Below this ratio of the scales the eight positive levels ascend in the order of their codes, also
// once the scales are rounded.
constexpr double kLargestRatio = kInnerLevel / kOuterLevel * 0.99;
constexpr int kFitRounds = 2;

// The codes of one vector, one a byte.
struct TwoCodes {
  std::array<uint8_t, kMaxDim> coarse;
  std::array<uint8_t, kMaxDim> fine;
};

// The nearest of the sixteen levels of each coordinate. A magnitude's level is found by counting
// the midpoints below it; a negative one takes the mirrored codes.
void AssignTwoCodes(int dim, const float* z, TwoScales scales, TwoCodes& codes) {
  std::array<float, 8> levels;
  for (int i = 0; i < 8; ++i) {
    levels[i] = scales.scale * kLevels[2 + i / 4] + scales.fine_scale * kLevels[i % 4];
  }
  for (int i = 0; i < dim; ++i) {
    const float magnitude = std::fabs(z[i]);
    int level = 0;
    for (int j = 0; j < 7; ++j) level += magnitude > 0.5f * (levels[j] + levels[j + 1]) ? 1 : 0;
    const int coarse = 2 + level / 4;
    const int fine = level % 4;
    codes.coarse[i] = static_cast<uint8_t>(z[i] < 0.0f ? 3 - coarse : coarse);
    codes.fine[i] = static_cast<uint8_t>(z[i] < 0.0f ? 3 - fine : fine);
  }
}

// Scales that leave the least for these codes; the old ones where there is no single best pair or
// where it would put the levels out of order.
TwoScales FitTwoScales(int dim, const float* z, const TwoCodes& codes, TwoScales old) {
  double cc = 0;
  double cf = 0;
  double ff = 0;
  double zc = 0;
  double zf = 0;
  for (int i = 0; i < dim; ++i) {
    const double c = kLevels[codes.coarse[i]];
    const double f = kLevels[codes.fine[i]];
    cc += c * c;
    cf += c * f;
    ff += f * f;
    zc += z[i] * c;
    zf += z[i] * f;
  }
  const double determinant = cc * ff - cf * cf;
  if (!(determinant > 1e-6 * cc * ff)) return old;
  const double scale = (zc * ff - zf * cf) / determinant;
  const double fine_scale = (zf * cc - zc * cf) / determinant;
  if (!(scale > 0) || !(fine_scale >= 0)) return old;
  return {static_cast<float>(scale),
          static_cast<float>(std::fmin(fine_scale, kLargestRatio * scale))};
}

TwoScales FirstScales(int dim, const float* z) {
  double energy = 0;
  for (int i = 0; i < dim; ++i) energy += double{z[i]} * z[i];
  const double size = std::sqrt(energy / dim);
  return {static_cast<float>(kFirstScale * size), static_cast<float>(kFirstFineScale * size)};
}

}  // namespace

float ResidualSign(int i) { return kSigns[i]; }

void RotateResidual(int dim, float* x) {
  for (int i = 0; i < dim; ++i) x[i] *= kSigns[i];
  HadamardBlocks(dim, x);
  const float norm = 1.0f / std::sqrt(static_cast<float>(BlockSize(dim)));
  for (int i = 0; i < dim; ++i) x[i] *= norm;
}

void UnrotateResidual(int dim, float* x) {
  HadamardBlocks(dim, x);
  const float norm = 1.0f / std::sqrt(static_cast<float>(BlockSize(dim)));
  for (int i = 0; i < dim; ++i) x[i] *= norm * kSigns[i];
}

void PackCodes(int dim, const uint8_t* codes, CodePacking packing, uint8_t* packed) {
  const int bytes = dim / 4;
  const int in_byte = packing == CodePacking::kLinear ? 1 : bytes;
  const int next_byte = packing == CodePacking::kLinear ? 4 : 1;
  for (int b = 0; b < bytes; ++b) {
    const uint8_t* first = codes + b * next_byte;
    packed[b] = static_cast<uint8_t>(first[0] | first[in_byte] << 2 | first[2 * in_byte] << 4 |
                                     first[3 * in_byte] << 6);
  }
}

float EncodeResidual(int dim, const float* z, CodePacking packing, bool scale_bf16,
                     uint8_t* codes) {
  float scale = LeastSquaresScale(dim, z);
  if (scale_bf16) scale = ToFloat(ToBf16(scale));
  const float threshold = kThreshold * scale;
  std::array<uint8_t, kMaxDim> unpacked;
  for (int i = 0; i < dim; ++i) unpacked[i] = CodeOf(z[i], threshold);
  PackCodes(dim, unpacked.data(), packing, codes);
  return scale;
}

TwoScales EncodeResidualTwice(int dim, const float* z, CodePacking packing, uint8_t* codes,
                              uint8_t* fine_codes) {
  TwoCodes unpacked;
  TwoScales scales = FirstScales(dim, z);
  for (int round = 0; round < kFitRounds; ++round) {
    AssignTwoCodes(dim, z, scales, unpacked);
    scales = FitTwoScales(dim, z, unpacked, scales);
  }
  scales = {ToFloat(ToBf16(scales.scale)), ToFloat(ToBf16(scales.fine_scale))};
  AssignTwoCodes(dim, z, scales, unpacked);
  PackCodes(dim, unpacked.coarse.data(), packing, codes);
  PackCodes(dim, unpacked.fine.data(), packing, fine_codes);
  return scales;
}

void DecodeResidual(int dim, const uint8_t* codes, float scale, CodePacking packing, float* z) {
  std::array<uint8_t, kMaxDim> unpacked;
  UnpackCodes(dim, codes, packing, unpacked.data());
  for (int i = 0; i < dim; ++i) z[i] = scale * kLevels[unpacked[i]];
}

void RepackCodes(int64_t count, int dim, CodePacking from, CodePacking to, uint8_t* codes) {
  if (from == to) return;
  std::array<uint8_t, kMaxDim> unpacked;
  for (int64_t row = 0; row < count; ++row, codes += dim / 4) {
    UnpackCodes(dim, codes, from, unpacked.data());
    PackCodes(dim, unpacked.data(), to, codes);
  }
}

}  // namespace anchorage::kernels
