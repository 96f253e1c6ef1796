// A prompt for measurements, taken from this repository.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/model.h"

namespace anchorage::bench {

// The first `tokens` tokens of a kind of text (eval/own_text.h) under `root`. InvalidArgument: no
// such kind, or it is shorter. NotFound: a file is missing.
absl::StatusOr<std::vector<int32_t>> OwnPrompt(const model::Model& model, const std::string& kind,
                                               const std::string& root, int tokens);

}  // namespace anchorage::bench
