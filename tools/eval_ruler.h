// `anchorage eval ruler`: long-context questions, answered with the full and the compressed cache.
#pragma once

#include "tools/command.h"

namespace anchorage::tools {

const Command& EvalRulerCommand();

}  // namespace anchorage::tools
