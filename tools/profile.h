// `anchorage profile`: calibrates where a model's cache bytes matter.
#pragma once

#include "tools/command.h"

namespace anchorage::tools {

const Command& ProfileCommand();

}  // namespace anchorage::tools
