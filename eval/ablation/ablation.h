// What AnchorKV would be without one of its ideas: the rows of an ablation study. Never served, and
// no part of a plan or a fingerprint.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "kv/plan/plan.h"

namespace anchorage::eval {

// What decides which positions get a residual.
enum class RankBy : uint8_t {
  kUtility,       // AnchorKV (arXiv 2608.02901), eq. 6, pooled as served
  kCosine,        // 1 - |cos| of the angle to the nearest anchor
  kResidualNorm,  // |r|
  kAttention,     // eq. 14: the score that chooses anchors
  kRandom,        // a hash of layer, head, position and side
};

// What a residual's two bits a coordinate stand for.
enum class ResidualCode : uint8_t {
  kLeastSquares,  // rotated, Lloyd-Max levels, the best scale: what is served; keys have their bits
                  // where they count (kernels/key_code.h)
  kEvenBits,      // the same with as many bits for each coordinate of a key
  kRms,           // the same with the root mean square as its scale
  kAbsMax,        // with the largest magnitude: the paper's words taken literally
  kAbsMaxOuter,   // with the largest magnitude on the outer level
  kMinMax,        // not rotated; four even levels from the smallest to the largest coordinate. Two
                  // numbers beside the codes, so the same bytes buy fewer slots
};

// What the anchors between the first positions' and the window's are.
enum class Anchors : uint8_t {
  kFitted,      // lines that lie close to the prefix (kv/compressors/fit_anchors.h): what is served
  kRows,        // rows of the prefix, by attention and some at random, as the paper has them
  kScoredRows,  // rows of the prefix by attention alone
};

// What is given back exactly, for no bytes at all: what remains is the error of everything else.
enum class Exact : uint8_t {
  kNothing,
  kKeys,
  kValues,
  kCoded,    // the positions that have a residual
  kUncoded,  // those that have none
};

// The default is what is served.
struct Ablation {
  RankBy rank_by = RankBy::kUtility;
  ResidualCode code = ResidualCode::kLeastSquares;
  Exact exact = Exact::kNothing;
  Anchors anchors = Anchors::kFitted;
  bool equal_heads = false;   // each head gets the same number of slots
  bool joint_sides = false;   // K and V compete for the slots; each gets a quarter at least
  bool no_residuals = false;  // slots stay empty; their bytes are paid for all the same
  bool after_rope = false;    // keys are projected after RoPE, not before

  // Those that only change the plan's options.
  bool no_sinks = false;          // no pinned anchors
  bool unpooled_utility = false;  // each position is ranked by its own utility alone
  bool one_code = false;          // no second codes while a position has none
  bool equal_layers = false;      // no profile
  int64_t window_len = 0;         // W; 0: as served

  bool operator==(const Ablation&) const = default;
};

// The options to plan and compress with. `served` is of layout kCompact.
kv::PlanOptions PlanOf(const Ablation& ablation, const kv::PlanOptions& served);

// One name that ParseAblation knows.
struct AblationName {
  const char* name;
  const char* help;
  const char* choice;  // what it decides; two of the same choice contradict each other
  void (*apply)(Ablation&);
};
std::span<const AblationName> AblationNames();

// One name or several joined by '+', such as "rank-random+equal-heads". "served" changes nothing.
// InvalidArgument: an unknown name, or two that contradict each other.
absl::StatusOr<Ablation> ParseAblation(std::string_view text);

}  // namespace anchorage::eval
