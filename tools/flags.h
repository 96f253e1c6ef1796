// The flags that several subcommands share: those of kv/plan_flags.h and
//   --model FILE   --threads N   --seed N   --json
#pragma once

#include <cstdint>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"

ABSL_DECLARE_FLAG(std::string, model);
ABSL_DECLARE_FLAG(int, threads);
ABSL_DECLARE_FLAG(uint64_t, seed);
ABSL_DECLARE_FLAG(bool, json);

namespace anchorage::tools {

// --threads, where 0 means all cores of this machine.
absl::StatusOr<int> ThreadsFromFlags();

}  // namespace anchorage::tools
