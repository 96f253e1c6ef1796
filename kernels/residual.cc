#include "kernels/residual.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
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

// The bits of coordinate i: byte and shift.
struct CodePlace {
  int byte;
  int shift;
};
CodePlace PlaceOf(int i, int dim, CodePacking packing) {
  if (packing == CodePacking::kLinear) return {i / 4, 2 * (i % 4)};
  const int quarter = dim / 4;
  return {i % quarter, 2 * (i / quarter)};
}

int CodeOf(float z, float scale) {
  const bool outer = std::fabs(z) > kThreshold * scale;
  if (z < 0.0f) return outer ? 0 : 1;
  return outer ? 3 : 2;
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

float EncodeResidual(int dim, const float* z, CodePacking packing, bool scale_bf16,
                     uint8_t* codes) {
  float scale = LeastSquaresScale(dim, z);
  if (scale_bf16) scale = ToFloat(ToBf16(scale));
  std::memset(codes, 0, static_cast<size_t>(dim / 4));
  for (int i = 0; i < dim; ++i) {
    const CodePlace place = PlaceOf(i, dim, packing);
    codes[place.byte] |= static_cast<uint8_t>(CodeOf(z[i], scale) << place.shift);
  }
  return scale;
}

void DecodeResidual(int dim, const uint8_t* codes, float scale, CodePacking packing, float* z) {
  for (int i = 0; i < dim; ++i) {
    const CodePlace place = PlaceOf(i, dim, packing);
    z[i] = scale * kLevels[(codes[place.byte] >> place.shift) & 3];
  }
}

void RepackCodes(int64_t count, int dim, CodePacking from, CodePacking to, uint8_t* codes) {
  if (from == to) return;
  const int bytes = dim / 4;
  std::array<uint8_t, kMaxDim / 4> repacked;
  for (int64_t row = 0; row < count; ++row) {
    uint8_t* vector = codes + row * bytes;
    repacked.fill(0);
    for (int i = 0; i < dim; ++i) {
      const CodePlace source = PlaceOf(i, dim, from);
      const CodePlace target = PlaceOf(i, dim, to);
      const int code = (vector[source.byte] >> source.shift) & 3;
      repacked[target.byte] |= static_cast<uint8_t>(code << target.shift);
    }
    std::memcpy(vector, repacked.data(), static_cast<size_t>(bytes));
  }
}

}  // namespace anchorage::kernels
