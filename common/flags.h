// Start-up flags, defined with ABSL_FLAG: each can also be given as the environment variable
// ANCHORAGE_FLAG, and a bad one stops the program with a sentence and status 2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace anchorage {

// Sets every flag that the environment names (ANCHORAGE_KV_MEMORY for --kv-memory), then those of
// the command line over it. `--kv-memory 1GiB`, `--kv-memory=1GiB` and `--kv_memory=1GiB` are the
// same; `--json` and `--nojson` set a switch; what follows `--` is no flag. `taken` names the flags
// of this program, with underscores, in the order of --help; empty: all that are linked in.
//
// Returns the positional arguments (without argv[0]). Prints `usage` and the flags and exits with 0
// on --help, the version on --version; exits with 2 and a sentence on a flag that the program does
// not take or a value that does not parse.
std::vector<std::string> ParseFlags(std::string_view usage, int argc, char** argv,
                                    const std::vector<std::string_view>& taken = {});

// The duration that was given for `flag` ("--lease"). InvalidArgument: below 1 ms or above 1000 h.
absl::StatusOr<int64_t> MillisecondsOf(const char* flag, absl::Duration duration);

// Prints the message on standard error and exits with status 2.
[[noreturn]] void DieOfBadFlag(const absl::Status& status);

}  // namespace anchorage
