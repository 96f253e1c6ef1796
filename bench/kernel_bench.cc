// How close the kernels come to what the machine can do, at the shapes of SmolLM2-135M.
//
//   kernel_bench [--threads N] [--isa portable|avx2] [--only TEXT] [--check]
//
// Each case first compares its answer with the double-precision reference on a sample of rows and
// the program ends with status 1 when one is wrong; --check stops there. GFLOP/s count a
// multiply-add as two; the shares in brackets are of multiply-adds in registers and one pass over
// 256 MiB, both measured at the start with the same threads. Weights are cold in the second-level
// cache.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/machine_peak.h"
#include "bench/timing.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/prefill_attention.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/matmul.h"
#include "kernels/reference/prefill_attention.h"

namespace anchorage::bench {
namespace {

using kernels::Bf16;
using kernels::Isa;
using kernels::Stream;
using kernels::WeightType;
using kernels::WeightView;

constexpr double kBudgetSeconds = 0.3;
constexpr double kLargestError = 1e-5;  // of the largest value of the sample

struct Options {
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Isa isa = kernels::ActiveIsa();
  std::string only;
  bool check_only = false;
};

// The data of one case. An answer is compared with the reference on a sample of its rows.
class Case {
 public:
  virtual ~Case() = default;
  virtual void Run(Stream& stream) = 0;
  virtual double Error() const = 0;
  virtual double flops() const { return 0; }
  virtual double bytes() const = 0;  // of weights, cache or activations that must be read
};

std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(engine);
  return values;
}

std::vector<Bf16> RandomBf16(int64_t count, uint32_t seed) {
  const std::vector<float> values = RandomFloats(count, seed);
  std::vector<Bf16> rounded(count);
  kernels::ToBf16Row(count, values.data(), rounded.data());
  return rounded;
}

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

double RelativeError(const float* values, const std::vector<double>& expected) {
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(values[i] - expected[i]));
  }
  return difference / largest;
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

// The last `q_len` queries of a prompt of `seq_len` tokens, heads as in SmolLM2-135M.
class PrefillAttentionCase : public Case {
 public:
  PrefillAttentionCase(int64_t seq_len, int64_t q_len, Stream& stream)
      : shape_{kQHeads, kKvHeads, kHeadDim, seq_len - q_len, q_len, seq_len},
        q_(RandomFloats(q_len * kQHeads * kHeadDim, 5)),
        k_(RandomBf16(kKvHeads * seq_len * kHeadDim, 6)),
        v_(RandomBf16(kKvHeads * seq_len * kHeadDim, 7)),
        out_(q_.size()),
        scratch_(kernels::PrefillAttentionScratchBytes(shape_, stream.num_threads())) {
    for (int64_t position = 0; position < seq_len; ++position) {
      for (int j = 0; j < kHeadDim / 2; ++j) {
        const double angle = static_cast<double>(position) * std::pow(1e5, -2.0 * j / kHeadDim);
        cos_.push_back(static_cast<float>(std::cos(angle)));
        sin_.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }

  void Run(Stream& stream) override {
    kernels::PrefillAttention(shape_, q_.data(), k_.data(), v_.data(), Rope(), out_.data(), nullptr,
                              scratch_.data(), stream);
  }

  double Error() const override {
    const int64_t last = shape_.q_len - 1;
    const int64_t row_floats = kQHeads * kHeadDim;
    kernels::PrefillAttentionShape last_row = shape_;
    last_row.q_start += last;
    last_row.q_len = 1;
    std::vector<double> expected(row_floats);
    kernels::reference::PrefillAttention(last_row, q_.data() + last * row_floats, k_.data(),
                                         v_.data(), Rope(), expected.data(), nullptr);
    return RelativeError(out_.data() + last * row_floats, expected);
  }

  double flops() const override {
    const auto seq_len = static_cast<double>(shape_.kv_capacity);
    const auto q_len = static_cast<double>(shape_.q_len);
    return q_len * (seq_len - (q_len - 1) / 2) * kQHeads * kHeadDim * 4;
  }
  double bytes() const override {
    return static_cast<double>((k_.size() + v_.size()) * sizeof(Bf16));
  }

 private:
  static constexpr int kQHeads = 9;
  static constexpr int kKvHeads = 3;
  static constexpr int kHeadDim = 64;

  kernels::RopeView Rope() const {
    return {cos_.data(), sin_.data(), kHeadDim, shape_.kv_capacity};
  }

  kernels::PrefillAttentionShape shape_;
  std::vector<float> q_;
  std::vector<Bf16> k_;
  std::vector<Bf16> v_;
  std::vector<float> out_;
  std::vector<std::byte> scratch_;
  std::vector<float> cos_;
  std::vector<float> sin_;
};

class SiluMulCase : public Case {
 public:
  explicit SiluMulCase(int64_t count)
      : gate_(RandomFloats(count, 8)), up_(RandomFloats(count, 9)), out_(count) {}

  void Run(Stream& stream) override {
    kernels::SiluMul(Count(), gate_.data(), up_.data(), out_.data(), stream);
  }

  double Error() const override {
    std::vector<double> expected(out_.size());
    kernels::reference::SiluMul(Count(), gate_.data(), up_.data(), expected.data());
    return RelativeError(out_.data(), expected);
  }

  double bytes() const override { return static_cast<double>(2 * out_.size() * sizeof(float)); }

 private:
  int64_t Count() const { return static_cast<int64_t>(out_.size()); }

  std::vector<float> gate_;
  std::vector<float> up_;
  std::vector<float> out_;
};

class RmsNormCase : public Case {
 public:
  RmsNormCase(int64_t rows, int64_t dim)
      : rows_(rows),
        x_(RandomFloats(rows * dim, 10)),
        weight_(RandomFloats(dim, 11)),
        out_(x_.size()) {}

  void Run(Stream& stream) override {
    kernels::RmsNorm(rows_, Dim(), x_.data(), weight_.data(), 1e-5f, out_.data(), stream);
  }

  double Error() const override {
    std::vector<double> expected(x_.size());
    kernels::reference::RmsNorm(rows_, Dim(), x_.data(), weight_.data(), 1e-5f, expected.data());
    return RelativeError(out_.data(), expected);
  }

  double bytes() const override { return static_cast<double>(x_.size() * sizeof(float)); }

 private:
  int64_t Dim() const { return static_cast<int64_t>(weight_.size()); }

  int64_t rows_;
  std::vector<float> x_;
  std::vector<float> weight_;
  std::vector<float> out_;
};

struct NamedCase {
  std::string name;
  std::function<std::unique_ptr<Case>(Stream&)> make;
};

std::string ShapeName(const char* op, int64_t m, int64_t rows, int64_t cols) {
  return std::string(op) + " m=" + std::to_string(m) + " n=" + std::to_string(rows) +
         " k=" + std::to_string(cols);
}

NamedCase Gemm(int64_t m, int64_t rows, int64_t cols) {
  return {ShapeName("gemm", m, rows, cols),
          [=](Stream& stream) { return std::make_unique<GemmCase>(m, rows, cols, stream); }};
}

NamedCase Matmul(WeightType type, int64_t m, int64_t rows, int64_t cols) {
  return {ShapeName(type == WeightType::kQ4_1 ? "matmul q4_1" : "matmul q8_0", m, rows, cols),
          [=](Stream&) { return std::make_unique<MatmulCase>(type, m, rows, cols); }};
}

NamedCase PrefillAttention(int64_t seq_len, int64_t q_len) {
  return {"prefill_attention q=" + std::to_string(q_len) + " S=" + std::to_string(seq_len),
          [=](Stream& stream) {
            return std::make_unique<PrefillAttentionCase>(seq_len, q_len, stream);
          }};
}

std::vector<NamedCase> AllCases() {
  std::vector<NamedCase> cases;
  for (const int64_t m : {64, 512}) {
    cases.push_back(Gemm(m, 576, 576));
    cases.push_back(Gemm(m, 192, 576));
    cases.push_back(Gemm(m, 1536, 576));
    cases.push_back(Gemm(m, 576, 1536));
  }
  cases.push_back(Gemm(512, 4096, 4096));
  for (const int64_t m : {1, 4, 16}) {
    cases.push_back(Matmul(WeightType::kQ4_1, m, 1536, 576));
    cases.push_back(Matmul(WeightType::kQ4_1, m, 576, 1536));
    cases.push_back(Matmul(WeightType::kQ8_0, m, 49152, 576));
  }
  cases.push_back(PrefillAttention(512, 512));
  cases.push_back(PrefillAttention(4096, 512));
  cases.push_back(PrefillAttention(8192, 512));
  cases.push_back(
      {"silu_mul 512 x 1536", [](Stream&) { return std::make_unique<SiluMulCase>(512 * 1536); }});
  cases.push_back(
      {"rms_norm 512 x 576", [](Stream&) { return std::make_unique<RmsNormCase>(512, 576); }});
  return cases;
}

// Pushes earlier data out of the second-level cache.
void CoolSecondLevelCache() {
  static std::vector<char> other(4 << 20);
  for (size_t i = 0; i < other.size(); i += 64) ++other[i];
}

void Report(const std::string& name, Case& test, const MachinePeak& peak, Stream& stream) {
  const Spread spread = Measure(kBudgetSeconds, CoolSecondLevelCache, [&] { test.Run(stream); });
  std::printf("%-34s median %8.3f ms  p99 %8.3f ms", name.c_str(), spread.median_s * 1e3,
              spread.p99_s * 1e3);
  const double flops_per_s = test.flops() / spread.median_s;
  const double bytes_per_s = test.bytes() / spread.median_s;
  if (test.flops() > 0) {
    std::printf("  %6.1f GFLOP/s (%3.0f%%)", flops_per_s / 1e9,
                100 * flops_per_s / peak.flops_per_s);
  }
  std::printf("  %5.1f GB/s (%3.0f%%)\n", bytes_per_s / 1e9,
              100 * bytes_per_s / peak.read_bytes_per_s);
}

int Run(const Options& options) {
  if (!kernels::ForceIsa(options.isa)) {
    std::fprintf(stderr, "kernel_bench: this machine lacks %s\n", kernels::IsaName(options.isa));
    return 2;
  }
  Stream stream(options.threads);
  MachinePeak peak;
  if (!options.check_only) {
    peak = MeasurePeak(options.isa, stream);
    std::printf("%s, %d threads, %s: %.1f GFLOP/s, reads %.1f GB/s\n", ProcessorName().c_str(),
                options.threads, kernels::IsaName(options.isa), peak.flops_per_s / 1e9,
                peak.read_bytes_per_s / 1e9);
  }
  for (const NamedCase& named : AllCases()) {
    if (named.name.find(options.only) == std::string::npos) continue;
    const std::unique_ptr<Case> test = named.make(stream);
    test->Run(stream);
    const double error = test->Error();
    if (!(error < kLargestError)) {
      std::fprintf(stderr, "kernel_bench: %s is wrong by %g\n", named.name.c_str(), error);
      return 1;
    }
    if (options.check_only) {
      std::printf("%-34s error %.1e\n", named.name.c_str(), error);
    } else {
      Report(named.name, *test, peak, stream);
    }
  }
  return 0;
}

bool ParseOptions(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--check") {
      options.check_only = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const std::string value = argv[++i];
    if (flag == "--threads") {
      options.threads = std::atoi(value.c_str());
      if (options.threads < 1) return false;
    } else if (flag == "--only") {
      options.only = value;
    } else if (flag == "--isa") {
      if (value != "portable" && value != "avx2") return false;
      options.isa = value == "avx2" ? Isa::kAvx2 : Isa::kPortable;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace anchorage::bench

int main(int argc, char** argv) {
  anchorage::bench::Options options;
  if (!anchorage::bench::ParseOptions(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: kernel_bench [--threads N] [--isa portable|avx2] [--only TEXT] "
                 "[--check]\n");
    return 2;
  }
  return anchorage::bench::Run(options);
}
