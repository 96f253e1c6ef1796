#include "kernels/cpu/portable/vec8.h"
#include "kernels/cpu/prefill_attention_loops.h"

namespace anchorage::kernels {

constinit const PrefillAttentionKernels kPortablePrefillAttention =
    PrefillAttentionLoops<portable::Vec8>::Kernels();

}  // namespace anchorage::kernels
