// The flags that several subcommands share.
//   --model FILE   --kv anchorkv|none   --ratio R   --kv-floor-tokens N   --pin-sinks N
//   --threads N   --json
#pragma once

#include <string>
#include <string_view>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "kv/plan/plan.h"

ABSL_DECLARE_FLAG(std::string, model);
ABSL_DECLARE_FLAG(std::string, kv);
ABSL_DECLARE_FLAG(double, ratio);
ABSL_DECLARE_FLAG(int, kv_floor_tokens);
ABSL_DECLARE_FLAG(int, pin_sinks);
ABSL_DECLARE_FLAG(int, threads);
ABSL_DECLARE_FLAG(bool, json);

namespace anchorage::tools {

// What --kv, --ratio, --kv-floor-tokens and --pin-sinks say. InvalidArgument names the flag.
absl::StatusOr<kv::PlanOptions> PlanOptionsFromFlags();

// --threads, where 0 means all cores of this machine.
absl::StatusOr<int> ThreadsFromFlags();

// A sentence for people: "anchorkv 20x" or "none".
std::string DescribeKv(const kv::PlanOptions& options);

}  // namespace anchorage::tools
