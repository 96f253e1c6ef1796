#include "kernels/isa.h"

#include <atomic>

#ifdef ANCHORAGE_KERNELS_AVX2
#include <cpuid.h>
#endif

namespace anchorage::kernels {
namespace {

#ifdef ANCHORAGE_KERNELS_AVX2
// Clang 14's __builtin_cpu_supports does not know f16c.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
#endif

Isa BestIsa() { return IsaSupported(Isa::kAvx2) ? Isa::kAvx2 : Isa::kPortable; }

std::atomic<Isa>& Active() {
  static std::atomic<Isa> active{BestIsa()};
  return active;
}

}  // namespace

Isa ActiveIsa() { return Active().load(std::memory_order_relaxed); }

bool IsaSupported(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
#ifdef ANCHORAGE_KERNELS_AVX2
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
#else
      return false;
#endif
  }
  return false;
}

bool ForceIsa(Isa isa) {
  if (!IsaSupported(isa)) return false;
  Active().store(isa, std::memory_order_relaxed);
  return true;
}

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
  }
  return "unknown";
}

}  // namespace anchorage::kernels
