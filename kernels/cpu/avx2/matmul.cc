#include "kernels/cpu/avx2/vec8.h"
#include "kernels/cpu/matmul_loops.h"

namespace anchorage::kernels {

constinit const MatmulKernels kAvx2Matmul = MatmulLoops<avx2::Vec8>::Kernels();

}  // namespace anchorage::kernels
