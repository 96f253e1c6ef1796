// How close the kernels come to what the machine can do, at the shapes of SmolLM2-135M.
//
//   kernel_bench [--threads N] [--isa portable|avx2] [--only TEXT] [--check]
//
// Each case first compares its answer with the double-precision reference on a sample of rows and
// the program ends with status 1 when one is wrong; --check stops there. GFLOP/s count a
// multiply-add as two; "of peak" is against multiply-adds in registers and one pass over 256 MiB,
// both measured at the start with the same threads. Weights are cold in the second-level cache.
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
constexpr double kLargestError = 1e-4;  // of the largest value of the sample

struct Options {
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Isa isa = kernels::ActiveIsa();
  std::string only;
  bool check_only = false;
};

// One case: what it does, what it costs, and how far a sample of its answer is from the reference.
struct Case {
  std::string name;
  double flops = 0;
  double bytes = 0;  // of weights or cache that must be read
  std::function<void()> run;
  std::function<double()> error;
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

Case GemmCase(int64_t m, int64_t rows, int64_t cols, Stream& stream) {
  auto a = std::make_shared<std::vector<float>>(RandomFloats(m * cols, 2));
  auto w = std::make_shared<std::vector<float>>(RandomFloats(rows * cols, 3));
  const WeightView view = {WeightType::kF32, rows, cols,
                           reinterpret_cast<const std::byte*>(w->data())};
  auto packed = std::make_shared<std::vector<float>>(kernels::PackedWeightsSize(rows, cols));
  kernels::PackWeights(view, packed->data(), stream);
  auto c = std::make_shared<std::vector<float>>(m * rows);
  const auto run = [=, &stream] {
    kernels::Gemm(m, a->data(), cols, {rows, cols, packed->data()}, c->data(), rows, false, stream);
  };
  const auto error = [=] {
    const int64_t sample = std::min<int64_t>(m, 3);
    std::vector<double> expected(sample * rows);
    kernels::reference::Matmul(
        sample, a->data(), cols,
        {WeightType::kF32, rows, cols, reinterpret_cast<const std::byte*>(w->data())},
        expected.data());
    return RelativeError(c->data(), expected);
  };
  return {
      "gemm m=" + std::to_string(m) + " n=" + std::to_string(rows) + " k=" + std::to_string(cols),
      2.0 * static_cast<double>(m * rows * cols), static_cast<double>(rows * cols * 4), run, error};
}

Case MatmulCase(WeightType type, int64_t m, int64_t rows, int64_t cols, Stream& stream) {
  auto bytes = std::make_shared<std::vector<std::byte>>(RandomWeights(type, rows, cols));
  const WeightView view = {type, rows, cols, bytes->data()};
  auto x = std::make_shared<std::vector<float>>(RandomFloats(m * cols, 4));
  auto out = std::make_shared<std::vector<float>>(m * rows);
  const auto run = [=, &stream] {
    kernels::Matmul(m, x->data(), view, out->data(), false, stream);
  };
  const auto error = [=] {
    std::vector<double> expected(rows);
    kernels::reference::Matmul(1, x->data(), cols, {type, rows, cols, bytes->data()},
                               expected.data());
    return RelativeError(out->data(), expected);
  };
  return {
      std::string("matmul ") + (type == WeightType::kQ4_1 ? "q4_1" : "q8_0") +
          " m=" + std::to_string(m) + " n=" + std::to_string(rows) + " k=" + std::to_string(cols),
      2.0 * static_cast<double>(m * rows * cols), static_cast<double>(bytes->size()), run, error};
}

struct RopeTable {
  std::vector<float> cos;
  std::vector<float> sin;
};

std::shared_ptr<RopeTable> MakeRope(int head_dim, int64_t num_positions) {
  auto table = std::make_shared<RopeTable>();
  for (int64_t position = 0; position < num_positions; ++position) {
    for (int j = 0; j < head_dim / 2; ++j) {
      const double angle = static_cast<double>(position) * std::pow(1e5, -2.0 * j / head_dim);
      table->cos.push_back(static_cast<float>(std::cos(angle)));
      table->sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

// The last `q_len` queries of a prompt of `seq_len` tokens.
Case PrefillAttentionCase(int64_t seq_len, int64_t q_len, Stream& stream) {
  const kernels::PrefillAttentionShape shape = {9, 3, 64, seq_len - q_len, q_len, seq_len};
  auto q = std::make_shared<std::vector<float>>(RandomFloats(q_len * 9 * 64, 5));
  auto k = std::make_shared<std::vector<Bf16>>(RandomBf16(3 * seq_len * 64, 6));
  auto v = std::make_shared<std::vector<Bf16>>(RandomBf16(3 * seq_len * 64, 7));
  auto rope = MakeRope(64, seq_len);
  auto out = std::make_shared<std::vector<float>>(q->size());
  auto scratch = std::make_shared<std::vector<std::byte>>(
      kernels::PrefillAttentionScratchBytes(shape, stream.num_threads()));
  const kernels::RopeView view = {rope->cos.data(), rope->sin.data(), 64, seq_len};
  const auto run = [=, &stream] {
    (void)rope;
    kernels::PrefillAttention(shape, q->data(), k->data(), v->data(), view, out->data(), nullptr,
                              scratch->data(), stream);
  };
  const auto error = [=] {
    kernels::PrefillAttentionShape first_row = shape;
    first_row.q_len = 1;
    std::vector<double> expected(9 * 64);
    kernels::reference::PrefillAttention(first_row, q->data(), k->data(), v->data(), view,
                                         expected.data(), nullptr);
    return RelativeError(out->data(), expected);
  };
  const double pairs = static_cast<double>(q_len) *
                       (static_cast<double>(seq_len) - (static_cast<double>(q_len) - 1) / 2);
  return {"prefill_attention 9/3 heads D=64 q=" + std::to_string(q_len) +
              " S=" + std::to_string(seq_len),
          pairs * 9 * 64 * 4, static_cast<double>((k->size() + v->size()) * 2), run, error};
}

Case SiluMulCase(int64_t count, Stream& stream) {
  auto gate = std::make_shared<std::vector<float>>(RandomFloats(count, 8));
  auto up = std::make_shared<std::vector<float>>(RandomFloats(count, 9));
  auto out = std::make_shared<std::vector<float>>(count);
  const auto run = [=, &stream] {
    kernels::SiluMul(count, gate->data(), up->data(), out->data(), stream);
  };
  const auto error = [=] {
    std::vector<double> expected(count);
    kernels::reference::SiluMul(count, gate->data(), up->data(), expected.data());
    return RelativeError(out->data(), expected);
  };
  return {"silu_mul " + std::to_string(count), 0, static_cast<double>(count * 8), run, error};
}

Case RmsNormCase(int64_t rows, int64_t dim, Stream& stream) {
  auto x = std::make_shared<std::vector<float>>(RandomFloats(rows * dim, 10));
  auto weight = std::make_shared<std::vector<float>>(RandomFloats(dim, 11));
  auto out = std::make_shared<std::vector<float>>(x->size());
  const auto run = [=, &stream] {
    kernels::RmsNorm(rows, dim, x->data(), weight->data(), 1e-5f, out->data(), stream);
  };
  const auto error = [=] {
    std::vector<double> expected(x->size());
    kernels::reference::RmsNorm(rows, dim, x->data(), weight->data(), 1e-5f, expected.data());
    return RelativeError(out->data(), expected);
  };
  return {"rms_norm " + std::to_string(rows) + " x " + std::to_string(dim), 0,
          static_cast<double>(x->size() * 4), run, error};
}

using CaseMaker = std::function<Case(Stream&)>;

std::vector<CaseMaker> AllCases() {
  std::vector<CaseMaker> makers;
  for (const int64_t m : {64, 512}) {
    makers.push_back([m](Stream& s) { return GemmCase(m, 576, 576, s); });
    makers.push_back([m](Stream& s) { return GemmCase(m, 192, 576, s); });
    makers.push_back([m](Stream& s) { return GemmCase(m, 1536, 576, s); });
    makers.push_back([m](Stream& s) { return GemmCase(m, 576, 1536, s); });
  }
  makers.push_back([](Stream& s) { return GemmCase(512, 4096, 4096, s); });
  for (const int64_t m : {1, 4, 16}) {
    makers.push_back([m](Stream& s) { return MatmulCase(WeightType::kQ4_1, m, 1536, 576, s); });
    makers.push_back([m](Stream& s) { return MatmulCase(WeightType::kQ4_1, m, 576, 1536, s); });
    makers.push_back([m](Stream& s) { return MatmulCase(WeightType::kQ8_0, m, 49152, 576, s); });
  }
  makers.push_back([](Stream& s) { return PrefillAttentionCase(512, 512, s); });
  makers.push_back([](Stream& s) { return PrefillAttentionCase(4096, 512, s); });
  makers.push_back([](Stream& s) { return PrefillAttentionCase(8192, 512, s); });
  makers.push_back([](Stream& s) { return SiluMulCase(512 * 1536, s); });
  makers.push_back([](Stream& s) { return RmsNormCase(512, 576, s); });
  return makers;
}

// Pushes earlier data out of the second-level cache.
void CoolSecondLevelCache() {
  static std::vector<char> other(4 << 20);
  for (size_t i = 0; i < other.size(); i += 64) ++other[i];
}

void Report(const Case& test, const MachinePeak& peak) {
  const Spread spread = Measure(kBudgetSeconds, CoolSecondLevelCache, test.run);
  std::printf("%-48s %9.3f ms  p99 %9.3f ms", test.name.c_str(), spread.median_s * 1e3,
              spread.p99_s * 1e3);
  if (test.flops > 0) {
    const double rate = test.flops / spread.median_s;
    std::printf("  %7.1f GFLOP/s (%3.0f%% of peak)", rate / 1e9, 100 * rate / peak.flops_per_s);
  }
  const double rate = test.bytes / spread.median_s;
  std::printf("  %6.1f GB/s (%3.0f%% of peak)\n", rate / 1e9, 100 * rate / peak.read_bytes_per_s);
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
  for (const CaseMaker& make : AllCases()) {
    const Case test = make(stream);
    if (test.name.find(options.only) == std::string::npos) continue;
    test.run();
    const double error = test.error();
    if (!(error < kLargestError)) {
      std::fprintf(stderr, "kernel_bench: %s is wrong by %g\n", test.name.c_str(), error);
      return 1;
    }
    if (options.check_only) {
      std::printf("%-48s error %.1e\n", test.name.c_str(), error);
    } else {
      Report(test, peak);
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
