#include "eval/candidate.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::eval {
namespace {

struct Method {
  const char* name;
  kv::Layout layout;
  std::optional<Ablation> ablation = std::nullopt;
};
constexpr Method kMethods[] = {
    {"full", kv::Layout::kDense},    {"compact", kv::Layout::kCompact},
    {"paper", kv::Layout::kPaper},   {"snapkv", kv::Layout::kSnapKv},
    {"recent", kv::Layout::kRecent},
};

absl::StatusOr<Method> MethodOf(const std::string& name) {
  for (const Method& method : kMethods) {
    if (method.name == name) return method;
  }
  const absl::StatusOr<Ablation> ablation = ParseAblation(name);
  if (ablation.ok()) return Method{name.c_str(), kv::Layout::kCompact, *ablation};
  return Invalid("--methods: '%s' is none of %s, and no ablation: %s", name, KnownMethods(),
                 std::string(ablation.status().message()));
}

kv::PlanOptions OptionsOf(const Method& method, double ratio, const kv::PlanOptions& compact) {
  kv::PlanOptions options = method.layout == kv::Layout::kCompact ? compact : kv::PlanOptions();
  options.layout = method.layout;
  if (method.layout == kv::Layout::kDense) return options;
  options.floor_tokens = compact.floor_tokens;
  options.theta_ppm = kv::ThetaPpmFromRatio(ratio);
  if (method.layout == kv::Layout::kPaper) options.num_pins = 0;
  return options;
}

}  // namespace

std::string Candidate::name() const {
  return method == kMethods[0].name ? method : absl::StrCat(method, " ", ratio, "x");
}

std::string KnownMethods() {
  return absl::StrJoin(kMethods, ", ", [](std::string* out, const Method& method) {
    absl::StrAppend(out, method.name);
  });
}

absl::StatusOr<std::vector<Candidate>> MakeCandidates(std::span<const std::string> methods,
                                                      std::span<const double> ratios,
                                                      const kv::PlanOptions& compact) {
  const Method& full = kMethods[0];
  std::vector<Candidate> candidates = {{full.name, 1, OptionsOf(full, 1, compact)}};
  if (ratios.empty()) return Invalid("--ratios names no ratio");
  for (const double ratio : ratios) {
    if (kv::ThetaPpmFromRatio(ratio) == 0) {
      return Invalid("--ratios: %g is not a compression of 1 to %d, such as 20", ratio, kv::kPpm);
    }
    if (std::count(ratios.begin(), ratios.end(), ratio) > 1) {
      return Invalid("--ratios: %g stands there twice", ratio);
    }
  }
  std::set<std::string> seen;
  for (const std::string& name : methods) {
    ASSIGN_OR_RETURN(const Method method, MethodOf(name));
    if (!seen.insert(name).second) return Invalid("--methods: '%s' stands there twice", name);
    if (method.layout == full.layout) continue;
    for (const double ratio : ratios) {
      candidates.push_back({name, ratio, OptionsOf(method, ratio, compact), method.ablation});
    }
  }
  return candidates;
}

}  // namespace anchorage::eval
