#include "kernels/cpu/anchor_loops.h"
#include "kernels/cpu/avx2/lanes.h"

namespace anchorage::kernels {

constinit const AnchorKernels kAvx2Anchor = AnchorLoops<avx2::Lanes>::Kernels();

}  // namespace anchorage::kernels
