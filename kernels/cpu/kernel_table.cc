#include "kernels/cpu/kernel_table.h"

#include "kernels/isa.h"

namespace anchorage::kernels {
namespace {

constexpr KernelTable kPortable = {
    .anchor = &kPortableAnchor,
    .decode = &kPortableDecode,
    .elementwise = &kPortableElementwise,
    .matmul = &kPortableMatmul,
    .prefill_attention = &kPortablePrefillAttention,
};

#ifdef ANCHORAGE_KERNELS_AVX2
constexpr KernelTable kAvx2 = {
    .anchor = &kAvx2Anchor,
    .decode = &kAvx2Decode,
    .elementwise = &kAvx2Elementwise,
    .matmul = &kAvx2Matmul,
    .prefill_attention = &kAvx2PrefillAttention,
};
#endif

}  // namespace

const KernelTable& ActiveKernels() {
#ifdef ANCHORAGE_KERNELS_AVX2
  if (ActiveIsa() == Isa::kAvx2) return kAvx2;
#endif
  return kPortable;
}

}  // namespace anchorage::kernels
