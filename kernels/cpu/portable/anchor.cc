#include "kernels/cpu/anchor_loops.h"
#include "kernels/cpu/portable/lanes.h"

namespace anchorage::kernels {

constinit const AnchorKernels kPortableAnchor = AnchorLoops<portable::Lanes>::Kernels();

}  // namespace anchorage::kernels
