#include <algorithm>
#include <cstddef>
#include <random>

#include "bench/kernel_case.h"
#include "bench/made_up_data.h"
#include "kernels/matmul.h"
#include "kernels/reference/matmul.h"

namespace anchorage::bench {
namespace {

using kernels::Stream;
using kernels::WeightType;
using kernels::WeightView;

constexpr double kMinGemmShare = 0.5;

// Random codes under scales (and minima) of 2^-6 .. 2^-5.
std::vector<std::byte> RandomWeights(WeightType type, int64_t rows, int64_t cols) {
  std::vector<std::byte> bytes(rows * kernels::WeightRowBytes(type, cols));
  std::mt19937 engine(1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine());
  const size_t block = type == WeightType::kQ4_1 ? 20 : 34;
  for (size_t at = 0; at < bytes.size(); at += block) {
    bytes[at + 1] = std::byte{0x26};
    if (type == WeightType::kQ4_1) bytes[at + 3] = std::byte{0xa6};
  }
  return bytes;
}

class GemmCase : public Case {
 public:
  GemmCase(int64_t m, int64_t rows, int64_t cols, Stream& stream)
      : m_(m),
        a_(RandomFloats(m * cols, 2)),
        w_(RandomFloats(rows * cols, 3)),
        view_{WeightType::kF32, rows, cols, reinterpret_cast<const std::byte*>(w_.data())},
        packed_(kernels::PackedWeightsSize(rows, cols)),
        c_(m * rows) {
    kernels::PackWeights(view_, packed_.data(), stream);
  }

  void Run(Stream& stream) override {
    kernels::Gemm(m_, a_.data(), view_.cols, {view_.rows, view_.cols, packed_.data()}, c_.data(),
                  view_.rows, false, stream);
  }

  double Error() const override {
    const int64_t sample = std::min<int64_t>(m_, 3);
    std::vector<double> expected(sample * view_.rows);
    kernels::reference::Matmul(sample, a_.data(), view_.cols, view_, expected.data());
    return RelativeError(c_.data(), expected);
  }

  double flops() const override { return 2.0 * static_cast<double>(m_ * view_.rows * view_.cols); }
  double bytes() const override { return static_cast<double>(view_.rows * view_.cols * 4); }

 private:
  int64_t m_;
  std::vector<float> a_;
  std::vector<float> w_;
  WeightView view_;
  std::vector<float> packed_;
  std::vector<float> c_;
};

class MatmulCase : public Case {
 public:
  MatmulCase(WeightType type, int64_t m, int64_t rows, int64_t cols)
      : m_(m),
        weights_(RandomWeights(type, rows, cols)),
        view_{type, rows, cols, weights_.data()},
        x_(RandomFloats(m * cols, 4)),
        out_(m * rows) {}

  void Run(Stream& stream) override {
    kernels::Matmul(m_, x_.data(), view_, out_.data(), false, stream);
  }

  double Error() const override {
    std::vector<double> expected(view_.rows);
    kernels::reference::Matmul(1, x_.data(), view_.cols, view_, expected.data());
    return RelativeError(out_.data(), expected);
  }

  double flops() const override { return 2.0 * static_cast<double>(m_ * view_.rows * view_.cols); }
  double bytes() const override { return static_cast<double>(weights_.size()); }

 private:
  int64_t m_;
  std::vector<std::byte> weights_;
  WeightView view_;
  std::vector<float> x_;
  std::vector<float> out_;
};

std::string ShapeName(const char* op, int64_t m, int64_t rows, int64_t cols) {
  return std::string(op) + " m=" + std::to_string(m) + " n=" + std::to_string(rows) +
         " k=" + std::to_string(cols);
}

NamedCase Gemm(int64_t m, int64_t rows, int64_t cols, double min_share = 0) {
  return {
      ShapeName("gemm", m, rows, cols),
      [=](Stream& stream) { return std::make_unique<GemmCase>(m, rows, cols, stream); },
      min_share,
  };
}

NamedCase Matmul(WeightType type, int64_t m, int64_t rows, int64_t cols) {
  return {ShapeName(type == WeightType::kQ4_1 ? "matmul q4_1" : "matmul q8_0", m, rows, cols),
          [=](Stream&) { return std::make_unique<MatmulCase>(type, m, rows, cols); }};
}

}  // namespace

std::vector<NamedCase> MatmulCases() {
  std::vector<NamedCase> cases;
  for (const int64_t m : {64, 512}) {
    cases.push_back(Gemm(m, 576, 576));
    cases.push_back(Gemm(m, 192, 576));
    cases.push_back(Gemm(m, 1536, 576, m == 512 ? kMinGemmShare : 0));
    cases.push_back(Gemm(m, 576, 1536, m == 512 ? kMinGemmShare : 0));
  }
  cases.push_back(Gemm(512, 4096, 4096, kMinGemmShare));
  for (const int64_t m : {1, 4, 16}) {
    cases.push_back(Matmul(WeightType::kQ4_1, m, 1536, 576));
    cases.push_back(Matmul(WeightType::kQ4_1, m, 576, 1536));
    cases.push_back(Matmul(WeightType::kQ8_0, m, 49152, 576));
  }
  return cases;
}

}  // namespace anchorage::bench
