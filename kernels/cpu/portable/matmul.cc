#include "kernels/cpu/matmul_loops.h"
#include "kernels/cpu/portable/vec8.h"

namespace anchorage::kernels {

constinit const MatmulKernels kPortableMatmul = MatmulLoops<portable::Vec8>::Kernels();

}  // namespace anchorage::kernels
