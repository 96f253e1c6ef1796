#include "eval/ablation/coded_residual.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/residual.h"
#include "kernels/types.h"

namespace anchorage::eval {
namespace {

constexpr int64_t kScaleBytes = 2;  // bf16

float Stored(float value) { return kernels::ToFloat(kernels::ToBf16(value)); }

float LargestMagnitude(std::span<const float> z) {
  float largest = 0;
  for (const float x : z) largest = std::max(largest, std::fabs(x));
  return largest;
}

float RootMeanSquare(std::span<const float> z) {
  double sum = 0;
  for (const float x : z) sum += double{x} * x;
  return static_cast<float>(std::sqrt(sum / static_cast<double>(z.size())));
}

float ScaleOf(ResidualCode code, std::span<const float> z) {
  if (code == ResidualCode::kRms) return RootMeanSquare(z);
  if (code == ResidualCode::kAbsMax) return LargestMagnitude(z);
  return LargestMagnitude(z) / kernels::kOuterLevel;
}

// The nearest of the four levels at a scale that the code's bits do not choose.
float NearestLevel(float x, float scale) {
  const float middle = (kernels::kInnerLevel + kernels::kOuterLevel) / 2 * scale;
  const float level = std::fabs(x) > middle ? kernels::kOuterLevel : kernels::kInnerLevel;
  return std::copysign(level * scale, x);
}

// out [D] is what the code of z [D] stands for.
bool CodeLloydMax(ResidualCode code, std::span<const float> z, std::span<float> out) {
  const int dim = static_cast<int>(z.size());
  if (code == ResidualCode::kLeastSquares || code == ResidualCode::kEvenBits) {
    std::vector<uint8_t> codes(z.size() / 4);
    const float scale =
        kernels::EncodeResidual(dim, z.data(), kernels::CodePacking::kLinear, true, codes.data());
    kernels::DecodeResidual(dim, codes.data(), scale, kernels::CodePacking::kLinear, out.data());
    return std::isfinite(scale);
  }
  const float scale = Stored(ScaleOf(code, z));
  for (size_t i = 0; i < z.size(); ++i) out[i] = NearestLevel(z[i], scale);
  return std::isfinite(scale);
}

bool CodeMinMax(std::span<const float> z, std::span<float> out) {
  const auto [low, high] = std::minmax_element(z.begin(), z.end());
  const float first = Stored(*low);
  const float step = Stored((*high - *low) / 3);
  for (size_t i = 0; i < z.size(); ++i) {
    const float level =
        step > 0 ? std::clamp(std::nearbyint((z[i] - first) / step), 0.0f, 3.0f) : 0;
    out[i] = first + level * step;
  }
  return std::isfinite(first) && std::isfinite(step);
}

using Parts = std::vector<std::vector<float>>;  // what each code stands for

// The served pair of codes.
bool CodeTogether(std::span<const float> z, Parts& parts) {
  constexpr auto kPacking = kernels::CodePacking::kLinear;
  const int dim = static_cast<int>(z.size());
  std::vector<uint8_t> codes(z.size() / 4);
  std::vector<uint8_t> fine_codes(z.size() / 4);
  const kernels::TwoScales scales =
      kernels::EncodeResidualTwice(dim, z.data(), kPacking, codes.data(), fine_codes.data());
  const float fine_scale = Stored(scales.fine_scale);
  kernels::DecodeResidual(dim, codes.data(), Stored(scales.scale), kPacking, parts[0].data());
  kernels::DecodeResidual(dim, fine_codes.data(), fine_scale, kPacking, parts[1].data());
  return std::isfinite(scales.scale) && std::isfinite(fine_scale);
}

// Each code of what the one before it leaves.
bool CodeInTurn(ResidualCode code, std::span<float> z, Parts& parts) {
  for (std::vector<float>& part : parts) {
    const bool min_max = code == ResidualCode::kMinMax;
    if (!(min_max ? CodeMinMax(z, part) : CodeLloydMax(code, z, part))) return false;
    for (size_t i = 0; i < z.size(); ++i) z[i] -= part[i];
  }
  return true;
}

}  // namespace

int64_t SlotBytes(ResidualCode code, int64_t head_dim) {
  return head_dim / 4 + (code == ResidualCode::kMinMax ? 2 : 1) * kScaleBytes;
}

bool AddCodedResidual(ResidualCode code, int num_codes, std::span<float> residual,
                      std::span<float> row) {
  const int dim = static_cast<int>(residual.size());
  const bool rotated = code != ResidualCode::kMinMax;
  if (rotated) kernels::RotateResidual(dim, residual.data());
  if (!std::all_of(residual.begin(), residual.end(), [](float x) { return std::isfinite(x); })) {
    return false;
  }
  Parts parts(static_cast<size_t>(num_codes), std::vector<float>(residual.size()));
  const bool together =
      num_codes == 2 && (code == ResidualCode::kLeastSquares || code == ResidualCode::kEvenBits);
  if (!(together ? CodeTogether(residual, parts) : CodeInTurn(code, residual, parts))) return false;
  for (std::vector<float>& part : parts) {
    if (rotated) kernels::UnrotateResidual(dim, part.data());
    for (int d = 0; d < dim; ++d) row[d] += part[d];
  }
  return true;
}

bool AddCodedKey(const kernels::KeyCode& code, std::span<const float> residual,
                 std::span<float> row) {
  constexpr auto kPacking = kernels::CodePacking::kLinear;
  std::vector<uint8_t> codes(residual.size() / 4);
  std::vector<float> coded(residual.size());
  const float scale = kernels::EncodeKey(code, residual.data(), kPacking, codes.data());
  kernels::DecodeKey(code, codes.data(), scale, kPacking, coded.data());
  for (size_t d = 0; d < row.size(); ++d) row[d] += coded[d];
  return std::isfinite(scale);
}

}  // namespace anchorage::eval
