#include "kernels/cpu/decode_loops.h"

#include "kernels/cpu/avx2/lanes.h"

namespace anchorage::kernels {

constinit const DecodeKernels kAvx2Decode = DecodeLoops<avx2::Lanes>::Kernels();

}  // namespace anchorage::kernels
