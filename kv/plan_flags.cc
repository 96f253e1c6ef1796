#include "kv/plan_flags.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/flags/flag.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "kv/profile_file.h"

ABSL_FLAG(
    std::string, kv, "anchorkv",
    "what becomes of the KV cache: anchorkv, none, or to compare with, snapkv or recent, which "
    "forget most positions");
ABSL_FLAG(double, ratio, 20, "how many times smaller --kv makes the prompt's KV cache");
ABSL_FLAG(int, kv_floor_tokens, 128,
          "the compressed cache never gets fewer bytes than this many uncompressed tokens take");
ABSL_FLAG(int, pin_sinks, 4, "first tokens that anchorkv and recent always keep exactly");
ABSL_FLAG(
    std::string, kv_profile, "auto",
    "shares of the layers, a file of `anchorage profile`; auto: MODEL.kvprofile.json beside the "
    "model if it is there; none: equal shares");

namespace anchorage::kv {
namespace {

constexpr Layout kServed[] = {Layout::kCompact, Layout::kSnapKv, Layout::kRecent, Layout::kDense};

absl::StatusOr<Layout> LayoutFromFlag() {
  const std::string kv = absl::GetFlag(FLAGS_kv);
  for (const Layout layout : kServed) {
    if (kv == KvMode(layout)) return layout;
  }
  return Invalid("--kv: '%s' is none of anchorkv, snapkv, recent and none", kv);
}

absl::StatusOr<Profile> ProfileFromFlag(const std::string& model_path) {
  std::string path = absl::GetFlag(FLAGS_kv_profile);
  if (path == "none") return Profile();
  if (path == "auto") {
    path = ProfilePathFor(model_path);
    std::error_code unreadable;
    if (model_path.empty() || !std::filesystem::exists(path, unreadable)) return Profile();
  }
  absl::StatusOr<ProfileFile> file = ReadProfileFile(path);
  if (!file.ok()) return Annotate(file.status(), "--kv-profile");
  return std::move(file->profile);
}

}  // namespace

absl::StatusOr<PlanOptions> PlanOptionsFromFlags(const std::string& model_path) {
  PlanOptions options;
  ASSIGN_OR_RETURN(options.layout, LayoutFromFlag());
  options.theta_ppm = ThetaPpmFromRatio(absl::GetFlag(FLAGS_ratio));
  if (options.theta_ppm <= 0) {
    return Invalid("--ratio: %g is not a number of at least 1", absl::GetFlag(FLAGS_ratio));
  }
  options.floor_tokens = absl::GetFlag(FLAGS_kv_floor_tokens);
  if (options.floor_tokens < 0) return Invalid("--kv-floor-tokens: must not be negative");
  options.num_pins = absl::GetFlag(FLAGS_pin_sinks);
  if (options.num_pins < 0) return Invalid("--pin-sinks: must not be negative");
  if (options.layout == Layout::kCompact) {
    ASSIGN_OR_RETURN(options.profile, ProfileFromFlag(model_path));
  }
  return options;
}

const char* KvMode(Layout layout) {
  if (layout == Layout::kDense) return "none";
  return EvictsPositions(layout) ? LayoutName(layout) : "anchorkv";
}

std::string DescribeKv(const PlanOptions& options) {
  const char* mode = KvMode(options.layout);
  if (options.layout == Layout::kDense) return mode;
  const std::string ratio =
      absl::StrFormat("%s %gx", mode, 1e6 / static_cast<double>(options.theta_ppm));
  if (options.profile.empty()) return ratio;
  return absl::StrFormat("%s, profile %016x", ratio, ProfileFingerprint(options.profile));
}

}  // namespace anchorage::kv
