#include "kernels/isa.h"

#include <atomic>

namespace anchorage::kernels {
namespace {

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
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
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
