// Which instruction set the CPU kernels use: chosen once at run time, the best the machine has, or
// the one that ForceIsa (a flag, an environment variable, a test) named.
#pragma once

namespace anchorage::kernels {

enum class Isa { kPortable, kAvx2 };

Isa ActiveIsa();
bool IsaSupported(Isa isa);
// False, and nothing changes, when this machine lacks it. Not while a kernel runs.
bool ForceIsa(Isa isa);
const char* IsaName(Isa isa);

}  // namespace anchorage::kernels
