#include "kv/plan_flags.h"

#include "absl/flags/flag.h"
#include "common/status.h"

ABSL_FLAG(std::string, kv, "anchorkv", "what becomes of the KV cache: anchorkv or none");
ABSL_FLAG(double, ratio, 20, "how many times smaller anchorkv makes the prompt's KV cache");
ABSL_FLAG(int, kv_floor_tokens, 128,
          "the compressed cache never gets fewer bytes than this many uncompressed tokens take");
ABSL_FLAG(int, pin_sinks, 4, "first tokens that anchorkv always keeps exactly");

namespace anchorage::kv {

absl::StatusOr<PlanOptions> PlanOptionsFromFlags() {
  PlanOptions options;
  const std::string kv = absl::GetFlag(FLAGS_kv);
  if (kv == "none") {
    options.layout = Layout::kDense;
  } else if (kv != "anchorkv") {
    return Invalid("--kv: '%s' is neither anchorkv nor none", kv);
  }
  options.theta_ppm = ThetaPpmFromRatio(absl::GetFlag(FLAGS_ratio));
  if (options.theta_ppm <= 0) {
    return Invalid("--ratio: %g is not a number of at least 1", absl::GetFlag(FLAGS_ratio));
  }
  options.floor_tokens = absl::GetFlag(FLAGS_kv_floor_tokens);
  if (options.floor_tokens < 0) return Invalid("--kv-floor-tokens: must not be negative");
  options.num_pins = absl::GetFlag(FLAGS_pin_sinks);
  if (options.num_pins < 0) return Invalid("--pin-sinks: must not be negative");
  return options;
}

std::string DescribeKv(const PlanOptions& options) {
  if (options.layout == Layout::kDense) return "none";
  return absl::StrFormat("anchorkv %gx", 1e6 / static_cast<double>(options.theta_ppm));
}

}  // namespace anchorage::kv
