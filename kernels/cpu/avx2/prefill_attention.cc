#include "kernels/cpu/avx2/vec8.h"
#include "kernels/cpu/prefill_attention_loops.h"

namespace anchorage::kernels {

constinit const PrefillAttentionKernels kAvx2PrefillAttention =
    PrefillAttentionLoops<avx2::Vec8>::Kernels();

}  // namespace anchorage::kernels
