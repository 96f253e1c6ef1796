#include "eval/ablation/ablation.h"

#include <algorithm>
#include <set>
#include <string>

#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::eval {
namespace {

constexpr AblationName kNames[] = {
    {"served", "everything as it is served, by the reference", "nothing", [](Ablation&) {}},
    {"rank-cosine", "residuals go where the angle to the anchor is widest", "rank",
     [](Ablation& a) { a.rank_by = RankBy::kCosine; }},
    {"rank-residual-norm", "residuals go where they are longest", "rank",
     [](Ablation& a) { a.rank_by = RankBy::kResidualNorm; }},
    {"rank-attention", "residuals go where the window looks", "rank",
     [](Ablation& a) { a.rank_by = RankBy::kAttention; }},
    {"rank-random", "residuals go anywhere", "rank",
     [](Ablation& a) { a.rank_by = RankBy::kRandom; }},
    {"unpooled-utility", "residuals go to single positions by their utility", "pooling",
     [](Ablation& a) { a.unpooled_utility = true; }},
    {"row-anchors", "anchors are rows of the prefix, by attention and some at random", "anchors",
     [](Ablation& a) { a.anchors = Anchors::kRows; }},
    {"scored-anchors", "anchors are rows of the prefix, all by attention", "anchors",
     [](Ablation& a) { a.anchors = Anchors::kScoredRows; }},
    {"no-sinks", "the first positions are not pinned", "sinks",
     [](Ablation& a) { a.no_sinks = true; }},
    {"equal-heads", "the same number of residuals in each head", "heads",
     [](Ablation& a) { a.equal_heads = true; }},
    {"joint-sides", "K and V compete for the residuals", "sides",
     [](Ablation& a) { a.joint_sides = true; }},
    {"equal-layers", "the same bytes for each layer", "layers",
     [](Ablation& a) { a.equal_layers = true; }},
    {"one-code", "no second codes while a position has none", "stages",
     [](Ablation& a) { a.one_code = true; }},
    {"no-residuals", "anchors and projections alone, in the same bytes", "code",
     [](Ablation& a) { a.no_residuals = true; }},
    {"naive-2bit", "residuals in four even levels, not rotated", "code",
     [](Ablation& a) { a.code = ResidualCode::kMinMax; }},
    {"even-bits", "keys have as many bits for each coordinate", "code",
     [](Ablation& a) { a.code = ResidualCode::kEvenBits; }},
    {"scale-rms", "residuals scaled by their root mean square", "code",
     [](Ablation& a) { a.code = ResidualCode::kRms; }},
    {"scale-absmax", "residuals scaled by their largest magnitude", "code",
     [](Ablation& a) { a.code = ResidualCode::kAbsMax; }},
    {"scale-absmax-outer", "residuals whose largest magnitude is the outer level", "code",
     [](Ablation& a) { a.code = ResidualCode::kAbsMaxOuter; }},
    {"after-rope", "keys are projected after RoPE", "frame",
     [](Ablation& a) { a.after_rope = true; }},
    {"exact-keys", "keys as they are: what V costs", "exact",
     [](Ablation& a) { a.exact = Exact::kKeys; }},
    {"exact-values", "values as they are: what K costs", "exact",
     [](Ablation& a) { a.exact = Exact::kValues; }},
    {"exact-coded", "positions with a residual as they are: what its code costs is gone", "exact",
     [](Ablation& a) { a.exact = Exact::kCoded; }},
    {"exact-uncoded", "positions without a residual as they are: what anchors alone cost is gone",
     "exact", [](Ablation& a) { a.exact = Exact::kUncoded; }},
    {"window-8", "an observation window of 8", "window", [](Ablation& a) { a.window_len = 8; }},
    {"window-16", "an observation window of 16", "window", [](Ablation& a) { a.window_len = 16; }},
    {"window-64", "an observation window of 64", "window", [](Ablation& a) { a.window_len = 64; }},
    {"window-128", "an observation window of 128", "window",
     [](Ablation& a) { a.window_len = 128; }},
};

absl::StatusOr<const AblationName*> Find(std::string_view name) {
  const auto* found = std::find_if(std::begin(kNames), std::end(kNames),
                                   [&](const AblationName& known) { return known.name == name; });
  if (found != std::end(kNames)) return found;
  std::string all;
  for (const AblationName& known : kNames) all += std::string(all.empty() ? "" : ", ") + known.name;
  return Invalid("'%s' is no ablation: there are %s", std::string(name), all);
}

}  // namespace

kv::PlanOptions PlanOf(const Ablation& ablation, const kv::PlanOptions& served) {
  kv::PlanOptions options = served;
  if (ablation.no_sinks) options.num_pins = 0;
  if (ablation.unpooled_utility) options.utility_pool_width = 1;
  if (ablation.one_code) options.fine_share_ppm = 0;
  if (ablation.equal_layers) options.profile = kv::Profile();
  if (ablation.window_len > 0) options.window_len = ablation.window_len;
  return options;
}

std::span<const AblationName> AblationNames() { return kNames; }

absl::StatusOr<Ablation> ParseAblation(std::string_view text) {
  Ablation ablation;
  std::set<std::string_view> choices;
  for (bool more = true; more;) {
    const size_t end = text.find('+');
    more = end != std::string_view::npos;
    ASSIGN_OR_RETURN(const AblationName* const name, Find(text.substr(0, end)));
    if (!choices.insert(name->choice).second) {
      return Invalid("'%s' contradicts another ablation of the same %s", name->name, name->choice);
    }
    name->apply(ablation);
    if (more) text.remove_prefix(end + 1);
  }
  return ablation;
}

}  // namespace anchorage::eval
