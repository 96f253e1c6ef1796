// `anchorage eval fidelity`: how far compressed caches are from the full one, in predictions and in
// attention.
#pragma once

#include "tools/command.h"

namespace anchorage::tools {

const Command& EvalFidelityCommand();

}  // namespace anchorage::tools
