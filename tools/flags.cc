#include "tools/flags.h"

#include <algorithm>
#include <thread>

#include "absl/flags/flag.h"
#include "common/status.h"

ABSL_FLAG(std::string, model, "", "model file (GGUF)");
ABSL_FLAG(std::string, kv, "anchorkv", "what becomes of the KV cache: anchorkv or none");
ABSL_FLAG(double, ratio, 20, "how many times smaller anchorkv makes the prompt's KV cache");
ABSL_FLAG(int, kv_floor_tokens, 128,
          "the compressed cache never gets fewer bytes than this many uncompressed tokens take");
ABSL_FLAG(int, pin_sinks, 4, "first tokens that anchorkv always keeps exactly");
ABSL_FLAG(int, threads, 0, "CPU threads; 0: one for each core");
ABSL_FLAG(bool, json, false, "print one JSON object instead of text");

namespace anchorage::tools {

absl::StatusOr<kv::PlanOptions> PlanOptionsFromFlags() {
  kv::PlanOptions options;
  const std::string kv = absl::GetFlag(FLAGS_kv);
  if (kv == "none") {
    options.layout = kv::Layout::kDense;
  } else if (kv != "anchorkv") {
    return Invalid("--kv: '%s' is neither anchorkv nor none", kv);
  }
  options.theta_ppm = kv::ThetaPpmFromRatio(absl::GetFlag(FLAGS_ratio));
  if (options.theta_ppm <= 0) {
    return Invalid("--ratio: %g is not a number of at least 1", absl::GetFlag(FLAGS_ratio));
  }
  options.floor_tokens = absl::GetFlag(FLAGS_kv_floor_tokens);
  if (options.floor_tokens < 0) return Invalid("--kv-floor-tokens: must not be negative");
  options.num_pins = absl::GetFlag(FLAGS_pin_sinks);
  if (options.num_pins < 0) return Invalid("--pin-sinks: must not be negative");
  return options;
}

absl::StatusOr<int> ThreadsFromFlags() {
  const int threads = absl::GetFlag(FLAGS_threads);
  if (threads < 0 || threads > 1024) return Invalid("--threads: %d is not in 0..1024", threads);
  if (threads > 0) return threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::string DescribeKv(const kv::PlanOptions& options) {
  if (options.layout == kv::Layout::kDense) return "none";
  return absl::StrFormat("anchorkv %gx", 1e6 / static_cast<double>(options.theta_ppm));
}

}  // namespace anchorage::tools
