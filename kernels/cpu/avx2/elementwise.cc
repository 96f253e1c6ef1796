#include "kernels/cpu/avx2/vec8.h"
#include "kernels/cpu/elementwise_loops.h"

namespace anchorage::kernels {

constinit const ElementwiseKernels kAvx2Elementwise = ElementwiseLoops<avx2::Vec8>::Kernels();

}  // namespace anchorage::kernels
