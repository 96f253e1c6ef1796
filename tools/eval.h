// `anchorage eval`: what compression costs in answers. Each evaluation is a subcommand of its own.
#pragma once

#include "tools/command.h"

namespace anchorage::tools {

const Command& EvalCommand();

}  // namespace anchorage::tools
