#include "kernels/cpu/elementwise_loops.h"
#include "kernels/cpu/portable/vec8.h"

namespace anchorage::kernels {

constinit const ElementwiseKernels kPortableElementwise =
    ElementwiseLoops<portable::Vec8>::Kernels();

}  // namespace anchorage::kernels
