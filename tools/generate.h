// `anchorage generate`: a prompt in, text out, prefill and decode in one process.
#pragma once

#include "tools/command.h"

namespace anchorage::tools {

const Command& GenerateCommand();

}  // namespace anchorage::tools
