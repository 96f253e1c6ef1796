// The real model, whose vocabulary and template some tests need.
#pragma once

#include <cstdlib>
#include <string>

namespace anchorage::text {

// ANCHORAGE_MODEL, else the file that scripts/test.sh fetches. Tests run in the repository's root.
inline std::string ModelPath() {
  const char* const path = std::getenv("ANCHORAGE_MODEL");
  return path != nullptr ? path : ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

}  // namespace anchorage::text
