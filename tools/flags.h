// The flags that several subcommands share: those of kv/plan_flags.h and
//   --model FILE   --threads N   --seed N   --json   --out PATH   --lengths N,N   --methods M,M
//   --ratios R,R
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"

ABSL_DECLARE_FLAG(std::string, model);
ABSL_DECLARE_FLAG(int, threads);
ABSL_DECLARE_FLAG(uint64_t, seed);
ABSL_DECLARE_FLAG(bool, json);
ABSL_DECLARE_FLAG(std::string, out);
ABSL_DECLARE_FLAG(std::vector<std::string>, lengths);
ABSL_DECLARE_FLAG(std::vector<std::string>, methods);
ABSL_DECLARE_FLAG(std::vector<std::string>, ratios);

namespace anchorage::tools {

// --threads, where 0 means all cores of this machine.
absl::StatusOr<int> ThreadsFromFlags();

// --lengths, or `otherwise` where none is given. Each is 1 or more.
absl::StatusOr<std::vector<int64_t>> LengthsFromFlags(const std::vector<int64_t>& otherwise);

// --methods, unchecked, or `otherwise` where none is given.
std::vector<std::string> MethodsFromFlags(const std::vector<std::string>& otherwise);

// --ratios, numbers of any size.
absl::StatusOr<std::vector<double>> RatiosFromFlags();

}  // namespace anchorage::tools
