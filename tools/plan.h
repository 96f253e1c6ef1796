// `anchorage plan`: what a request's cache costs, from its shape alone.
#pragma once

#include "tools/command.h"

namespace anchorage::tools {

const Command& PlanCommand();

}  // namespace anchorage::tools
