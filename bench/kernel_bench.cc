// How close the kernels come to what the machine can do, and compressed decode to uncompressed.
//
//   kernel_bench [--threads N] [--isa portable|avx2] [--only TEXT] [--answers] [--check]
//
// Each case first compares its answer with the double-precision reference; a wrong one ends the
// program with status 1. --answers stops there. GFLOP/s count a multiply-add as two; the shares in
// brackets are of multiply-adds in registers and of one pass over 256 MiB, both measured at the
// start with the same threads. Data are cold in the second-level cache. Rivals take turns.
// With --check the program ends with status 1 when a case stays below the share of multiply-adds or
// the speed-up that is asked of it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernel_case.h"
#include "bench/machine_peak.h"
#include "bench/threads.h"
#include "bench/timing.h"
#include "common/version.h"
#include "kernels/isa.h"

namespace anchorage::bench {
namespace {

using kernels::Isa;
using kernels::Stream;

constexpr double kBudgetSeconds = 0.3;
constexpr double kLargestError = 1e-5;

struct Options {
  int threads = ThreadsOrAll(0);
  Isa isa = kernels::ActiveIsa();
  std::string only;
  bool answers_only = false;
  bool check = false;
};

// Pushes earlier data out of the second-level cache.
void CoolSecondLevelCache() {
  static std::vector<char> other(4 << 20);
  for (size_t i = 0; i < other.size(); i += 64) ++other[i];
}

// Runs once; whether the answer is right. Says so when that is all that is asked.
bool IsRight(const std::string& name, Case& test, bool say, Stream& stream) {
  test.Run(stream);
  const double error = test.Error();
  const bool right = error < kLargestError;
  if (!right) std::fprintf(stderr, "kernel_bench: %s is wrong by %g\n", name.c_str(), error);
  if (right && say) std::printf("%-34s error %.1e\n", name.c_str(), error);
  return right;
}

void Report(const std::string& name, const Case& test, const Spread& spread,
            const MachinePeak& peak) {
  std::printf("%-34s median %8.3f ms  p99 %8.3f ms", name.c_str(), spread.median_s * 1e3,
              spread.p99_s * 1e3);
  const double flops_per_s = test.flops() / spread.median_s;
  const double bytes_per_s = test.bytes() / spread.median_s;
  if (test.flops() > 0) {
    std::printf("  %6.1f GFLOP/s (%3.0f%%)", flops_per_s / 1e9,
                100 * flops_per_s / peak.flops_per_s);
  }
  std::printf("  %5.1f GB/s (%3.0f%%)", bytes_per_s / 1e9,
              100 * bytes_per_s / peak.read_bytes_per_s);
  if (test.tokens() > 0) {
    std::printf("  %.3f us a token", spread.median_s * 1e6 / static_cast<double>(test.tokens()));
  }
}

// Measures and prints; whether the case does what is asked of it.
bool MeasureCase(const NamedCase& named, Case& test, Case* rival, const MachinePeak& peak,
                 Stream& stream) {
  std::vector<std::function<void()>> works = {[&] { test.Run(stream); }};
  if (rival != nullptr) works.push_back([&] { rival->Run(stream); });
  const std::vector<Spread> spreads = MeasureInTurn(
      kBudgetSeconds * static_cast<double>(works.size()), CoolSecondLevelCache, works);
  const double share = test.flops() / spreads[0].median_s / peak.flops_per_s;
  bool good = share >= named.min_share;
  Report(named.name, test, spreads[0], peak);
  if (rival != nullptr) {
    const double speedup = spreads[1].median_s / spreads[0].median_s;
    good = good && speedup >= named.min_speedup;
    std::printf("  %.2fx as fast as %s", speedup, named.rival_name.c_str());
  }
  std::printf("%s\n", good ? "" : "  too slow");
  std::fflush(stdout);
  return good;
}

std::vector<NamedCase> AllCases() {
  std::vector<NamedCase> all = MatmulCases();
  for (const auto& some : {PrefillCases(), CacheCases()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

int Run(const Options& options) {
  if (!kernels::ForceIsa(options.isa)) {
    std::fprintf(stderr, "kernel_bench: this machine lacks %s\n", kernels::IsaName(options.isa));
    return 2;
  }
  Stream stream(options.threads);
  std::printf("commit %s, %s, %d threads, %s", kCommit, ProcessorName().c_str(), options.threads,
              kernels::IsaName(options.isa));
  MachinePeak peak;
  if (!options.answers_only) {
    peak = MeasurePeak(options.isa, stream);
    std::printf(": %.1f GFLOP/s, reads %.1f GB/s", peak.flops_per_s / 1e9,
                peak.read_bytes_per_s / 1e9);
  }
  std::printf("\n");
  bool good = true;
  for (const NamedCase& named : AllCases()) {
    if (named.name.find(options.only) == std::string::npos) continue;
    const std::unique_ptr<Case> test = named.make(stream);
    std::unique_ptr<Case> rival;
    if (!IsRight(named.name, *test, options.answers_only, stream)) return 1;
    if (named.make_rival != nullptr) {
      rival = named.make_rival(stream);
      const std::string name = named.name + ", " + named.rival_name;
      if (!IsRight(name, *rival, options.answers_only, stream)) return 1;
    }
    if (!options.answers_only) {
      good = MeasureCase(named, *test, rival.get(), peak, stream) && good;
    }
  }
  return options.check && !good ? 1 : 0;
}

bool ParseOptions(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--check" || flag == "--answers") {
      (flag == "--check" ? options.check : options.answers_only) = true;
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
  return !(options.check && options.answers_only);
}

}  // namespace
}  // namespace anchorage::bench

int main(int argc, char** argv) {
  anchorage::bench::Options options;
  if (!anchorage::bench::ParseOptions(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: kernel_bench [--threads N] [--isa portable|avx2] [--only TEXT] "
                 "[--answers | --check]\n");
    return 2;
  }
  return anchorage::bench::Run(options);
}
