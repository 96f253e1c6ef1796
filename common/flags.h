// Start-up flags: every --flag can also be given as the environment variable ANCHORAGE_FLAG, and a
// bad value stops the program with a sentence.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace anchorage {

// Sets every flag that the environment names (ANCHORAGE_KV_MEMORY for --kv-memory), then parses
// the command line over it; `--kv-memory` and `--kv_memory` are the same flag. Prints help or the
// version and exits where asked. Returns the positional arguments (without argv[0]); exits with
// status 2 and a sentence on an unknown flag or a value that does not parse.
std::vector<std::string> ParseFlags(const char* usage, int argc, char** argv);

// Prints `program: message` on standard error and exits with status 2.
[[noreturn]] void DieOfBadFlag(const absl::Status& status);

}  // namespace anchorage
