// The flags that choose the byte plan, the same on every program that must agree on it.
//   --kv anchorkv|snapkv|recent|none   --ratio R   --kv-floor-tokens N   --pin-sinks N
//   --kv-profile FILE
#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "kv/plan/plan.h"

ABSL_DECLARE_FLAG(std::string, kv);
ABSL_DECLARE_FLAG(double, ratio);
ABSL_DECLARE_FLAG(int, kv_floor_tokens);
ABSL_DECLARE_FLAG(int, pin_sinks);
ABSL_DECLARE_FLAG(std::string, kv_profile);

namespace anchorage::kv {

// What the flags say. `model_path`: where --kv-profile auto looks for a profile, beside it; empty
// where there is no model file. InvalidArgument names the flag.
absl::StatusOr<PlanOptions> PlanOptionsFromFlags(const std::string& model_path);

// What --kv calls a layout.
const char* KvMode(Layout layout);

// For people: "anchorkv 20x", "anchorkv 20x, profile 0123456789abcdef" or "none".
std::string DescribeKv(const PlanOptions& options);

}  // namespace anchorage::kv
