// What is compared: ways to keep a cache, each with a name and the plan that describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/ablation/ablation.h"
#include "kv/plan/plan.h"

namespace anchorage::eval {

struct Candidate {
  std::string method;  // "full", "compact", "paper", or what an ablation is called
  double ratio = 1;    // asked for
  kv::PlanOptions options;
  std::optional<Ablation> ablation = std::nullopt;  // of the compact method

  std::string name() const;  // "compact 10x"; "full" without a ratio
};

// Methods that a run can name beside ablations, separated by commas.
std::string KnownMethods();

// The full cache first, whether it is named or not, then each method at each ratio. `compact` is
// what the compact method starts from; its layout and ratio do not count, and its floor is
// everybody's. InvalidArgument: neither a method nor an ablation, one that stands there twice, a
// ratio that is none.
absl::StatusOr<std::vector<Candidate>> MakeCandidates(std::span<const std::string> methods,
                                                      std::span<const double> ratios,
                                                      const kv::PlanOptions& compact);

}  // namespace anchorage::eval
