#include "kernels/key_code.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace anchorage::kernels {
namespace {

constexpr int kMaxDim = 1024;
constexpr int kFitRounds = 2;
// Where fits of the scale begin, in units of the scale that has the energy: with symbols and scale
// chosen in turn, each ends in the valley that it began in.
constexpr float kStarts[] = {0.75f, 1.0f, 1.3f};

using Row = std::array<float, kMaxDim>;

// Coordinates of z: the front, then the middle.
struct Parts {
  explicit Parts(int dim) : front(dim / 4), middle(dim / 2) {}
  int all() const { return front + middle; }

  int front;
  int middle;
};

// z = T x.
void ToParts(const KeyCode& code, const float* x, float* z) {
  const Parts parts(code.head_dim);
  for (int i = 0; i < parts.all() / 2; ++i) {
    z[2 * i] = x[code.order[i]];
    z[2 * i + 1] = x[code.order[i] + code.head_dim / 2];
  }
  RotateResidual(parts.front, z);
  RotateResidual(parts.middle, z + parts.front);
}

// x = T^T z. Overwrites z.
void FromParts(const KeyCode& code, float* z, float* x) {
  const Parts parts(code.head_dim);
  UnrotateResidual(parts.front, z);
  UnrotateResidual(parts.middle, z + parts.front);
  std::fill(x, x + code.head_dim, 0.0f);
  for (int i = 0; i < parts.all() / 2; ++i) {
    x[code.order[i]] = z[2 * i];
    x[code.order[i] + code.head_dim / 2] = z[2 * i + 1];
  }
}

// z = M^T y.
void Gather(const KeyCode& code, const float* y, float* z) {
  const Parts parts(code.head_dim);
  for (int i = 0; i < parts.front; ++i) {
    z[i] = code.gain[0] * (kWideSymbol * y[i] + kNarrowSymbol * y[parts.front + i]);
  }
  for (int i = 0; i < parts.middle; ++i) {
    z[parts.front + i] = code.gain[1] * y[2 * parts.front + i];
  }
}

constexpr std::array<float, 4> kLevels = {-kOuterLevel, -kInnerLevel, kInnerLevel, kOuterLevel};

// The eight positive sums of two symbols of the front ascend in the order of their symbols.
constexpr int kNumSums = 8;
constexpr float SumOf(int level) {
  return kWideSymbol * kLevels[2 + level / 4] + kNarrowSymbol * kLevels[level % 4];
}
// Midway to the next one.
constexpr float BoundOf(int level) { return 0.5f * (SumOf(level) + SumOf(level + 1)); }
constexpr float kMiddleBound = 0.5f * (kInnerLevel + kOuterLevel);

// The symbol whose level is nearest to z.
uint8_t Nearest(float z, float size) {
  const bool outer = std::fabs(z) > size * kMiddleBound;
  return static_cast<uint8_t>(z < 0.0f ? (outer ? 0 : 1) : (outer ? 3 : 2));
}

// The two symbols whose sum is nearest to z.
std::array<uint8_t, 2> NearestPair(float z, float size) {
  const float magnitude = std::fabs(z);
  int level = 0;
  for (int j = 0; j + 1 < kNumSums; ++j) level += magnitude > size * BoundOf(j) ? 1 : 0;
  const int wide = 2 + level / 4;
  const int narrow = level % 4;
  if (z >= 0.0f) return {static_cast<uint8_t>(wide), static_cast<uint8_t>(narrow)};
  return {static_cast<uint8_t>(3 - wide), static_cast<uint8_t>(3 - narrow)};
}

void Assign(const KeyCode& code, const float* z, float scale, uint8_t* symbols) {
  const Parts parts(code.head_dim);
  for (int i = 0; i < parts.front; ++i) {
    const auto pair = NearestPair(z[i], scale * code.gain[0]);
    symbols[i] = pair[0];
    symbols[parts.front + i] = pair[1];
  }
  for (int i = 0; i < parts.middle; ++i) {
    symbols[2 * parts.front + i] = Nearest(z[parts.front + i], scale * code.gain[1]);
  }
}

// The scale at which front and middle would have the energy that they have.
float FirstScale(const KeyCode& code, const float* z) {
  const Parts parts(code.head_dim);
  double energy = 0;
  for (int i = 0; i < parts.all(); ++i) energy += double{z[i]} * z[i];
  const double unit = parts.front * std::pow(double{code.gain[0]}, 2) +
                      parts.middle * std::pow(double{code.gain[1]}, 2);
  return unit > 0 ? static_cast<float>(std::sqrt(energy / unit)) : 0.0f;
}

// What stands for each |z| at a scale of 1, when symbols are the nearest at `scale`.
void NearestLevels(const KeyCode& code, const float* z, float scale, float* levels) {
  const Parts parts(code.head_dim);
  const float front = scale * code.gain[0];
  for (int i = 0; i < parts.front; ++i) {
    const float magnitude = std::fabs(z[i]);
    float level = SumOf(0);
    for (int j = 0; j + 1 < kNumSums; ++j) {
      level = magnitude > front * BoundOf(j) ? SumOf(j + 1) : level;
    }
    levels[i] = code.gain[0] * level;
  }
  const float bound = scale * code.gain[1] * kMiddleBound;
  for (int i = parts.front; i < parts.all(); ++i) {
    levels[i] = code.gain[1] * (std::fabs(z[i]) > bound ? kOuterLevel : kInnerLevel);
  }
}

// The best scale for the symbols that are nearest at `scale`, and how much of |z|^2 it removes.
struct Fit {
  float scale = 0;
  double removed = -1;
};
Fit FitScale(const KeyCode& code, const float* z, float scale) {
  const int seen = Parts(code.head_dim).all();
  Row levels;
  NearestLevels(code, z, scale, levels.data());
  double dot = 0;
  double square = 0;
  for (int i = 0; i < seen; ++i) {
    dot += double{std::fabs(z[i])} * levels[i];
    square += double{levels[i]} * levels[i];
  }
  if (!(square > 0) || !(dot > 0)) return {scale, 0};
  return {static_cast<float>(dot / square), dot * dot / square};
}

float BestScale(const KeyCode& code, const float* z) {
  const float first = FirstScale(code, z);
  Fit best;
  for (const float start : kStarts) {
    Fit fit{start * first};
    for (int round = 0; round < kFitRounds; ++round) fit = FitScale(code, z, fit.scale);
    if (!(fit.removed <= best.removed)) best = fit;
  }
  return best.scale;
}

}  // namespace

void SpreadQuery(const KeyCode& code, const float* x, float* y) {
  const Parts parts(code.head_dim);
  Row z;
  ToParts(code, x, z.data());
  for (int i = 0; i < parts.front; ++i) {
    y[i] = kWideSymbol * code.gain[0] * z[i];
    y[parts.front + i] = kNarrowSymbol * code.gain[0] * z[i];
  }
  for (int i = 0; i < parts.middle; ++i) {
    y[2 * parts.front + i] = code.gain[1] * z[parts.front + i];
  }
}

float EncodeKey(const KeyCode& code, const float* x, CodePacking packing, uint8_t* codes) {
  Row z;
  ToParts(code, x, z.data());
  const float scale = ToFloat(ToBf16(BestScale(code, z.data())));
  std::array<uint8_t, kMaxDim> symbols;
  Assign(code, z.data(), scale, symbols.data());
  PackCodes(code.head_dim, symbols.data(), packing, codes);
  return scale;
}

void DecodeKey(const KeyCode& code, const uint8_t* codes, float scale, CodePacking packing,
               float* x) {
  Row levels;
  Row z;
  DecodeResidual(code.head_dim, codes, scale, packing, levels.data());
  Gather(code, levels.data(), z.data());
  FromParts(code, z.data(), x);
}

}  // namespace anchorage::kernels
