// What this machine can do at most, measured: the yardstick of the kernel benchmarks.
#pragma once

#include <string>

#include "kernels/isa.h"
#include "kernels/stream.h"

namespace anchorage::bench {

struct MachinePeak {
  double flops_per_s = 0;       // multiply-adds in registers, counted as two, all threads together
  double read_bytes_per_s = 0;  // one pass over 256 MiB, all threads together
};

// Takes about 0.2 s. The multiply rate is that of `isa`.
MachinePeak MeasurePeak(kernels::Isa isa, kernels::Stream& stream);

// The processor's name as the system gives it.
std::string ProcessorName();

}  // namespace anchorage::bench
