#include "bench/machine_peak.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <vector>

#include "bench/timing.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace anchorage::bench {
namespace {

constexpr int64_t kSteps = 2'000'000;
constexpr int kChains = 12;
constexpr int kTrials = 5;

// Twelve independent chains of multiply-adds; returns their sum so that none is dropped.
float PortableChains() {
  using Floats = float __attribute__((vector_size(16)));
  Floats sums[kChains] = {};
  const Floats factor = {0.999f, 0.999f, 0.999f, 0.999f};
  for (int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (Floats& sum : sums) sum = sum * factor + factor;
  }
  float total = 0;
  for (const Floats& sum : sums) total += sum[0];
  return total;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float Avx2Chains() {
  __m256 sums[kChains];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  const __m256 factor = _mm256_set1_ps(0.999f);
  for (int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, factor);
  }
  float total = 0;
  for (const __m256& sum : sums) total += _mm256_cvtss_f32(sum);
  return total;
}
#endif

float Chains(kernels::Isa isa) {
#if defined(__x86_64__)
  if (isa == kernels::Isa::kAvx2) return Avx2Chains();
#endif
  return PortableChains();
}

}  // namespace

MachinePeak MeasurePeak(kernels::Isa isa, kernels::Stream& stream) {
  const int threads = stream.num_threads();
  std::vector<float> sink(threads);
  const double multiply_s = BestSeconds(kTrials, [&] {
    stream.ParallelFor(threads, [&](int64_t i, int) { sink[i] = Chains(isa); });
  });
  const int lanes = isa == kernels::Isa::kAvx2 ? 8 : 4;

  std::vector<uint64_t> memory((256 << 20) / sizeof(uint64_t), 1);
  constexpr int64_t kPieces = 256;
  const int64_t piece = static_cast<int64_t>(memory.size()) / kPieces;
  std::vector<uint64_t> sums(kPieces);
  const double read_s = BestSeconds(kTrials, [&] {
    stream.ParallelFor(kPieces, [&](int64_t i, int) {
      uint64_t partial[8] = {};
      for (int64_t at = i * piece; at < (i + 1) * piece; at += 8) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) partial[j] += memory[at + j];
      }
      sums[i] = std::accumulate(partial, partial + 8, uint64_t{0});
    });
  });
  KeepAlive(sink.data());
  KeepAlive(sums.data());
  return {2.0 * kSteps * kChains * lanes * threads / multiply_s,
          static_cast<double>(memory.size() * sizeof(uint64_t)) / read_s};
}

std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace anchorage::bench
