#include "kernels/cpu/decode_loops.h"

#include "kernels/cpu/portable/lanes.h"

namespace anchorage::kernels {

constinit const DecodeKernels kPortableDecode = DecodeLoops<portable::Lanes>::Kernels();

}  // namespace anchorage::kernels
