// The part of `anchorage inspect` that knows model files.
#pragma once

#include "absl/status/status.h"
#include "files/gguf.h"

namespace anchorage::tools {

// Header, metadata, sizes by type and by tensor, and the XXH3-64 of the whole file (GGUF has no
// checksum of its own to compare with), as text or as one JSON object.
void PrintModel(const files::GgufFile& file, bool json);

}  // namespace anchorage::tools
