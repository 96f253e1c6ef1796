// `anchorage inspect FILE`: what is inside a model file or a saved cache.
#pragma once

#include "tools/command.h"

namespace anchorage::tools {

const Command& InspectCommand();

}  // namespace anchorage::tools
