// The flags that choose the byte plan, the same on every program that must agree on it.
//   --kv anchorkv|none   --ratio R   --kv-floor-tokens N   --pin-sinks N
#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "kv/plan/plan.h"

ABSL_DECLARE_FLAG(std::string, kv);
ABSL_DECLARE_FLAG(double, ratio);
ABSL_DECLARE_FLAG(int, kv_floor_tokens);
ABSL_DECLARE_FLAG(int, pin_sinks);

namespace anchorage::kv {

// What the flags say. InvalidArgument names the flag.
absl::StatusOr<PlanOptions> PlanOptionsFromFlags();

// For people: "anchorkv 20x" or "none".
std::string DescribeKv(const PlanOptions& options);

}  // namespace anchorage::kv
