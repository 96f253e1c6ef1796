// How good an answer is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "eval/ruler/task.h"

namespace anchorage::eval::ruler {

// In [0, 1]. References are looked for as parts of the answer, without regard to case.
//   kAllRefs   the share of the references that are found (RULER's string_match_all)
//   kAnyRef    1 when any is found (string_match_part)
//   kPasskey   1 when the first run of digits in the answer, white space deleted, is the first
//              reference exactly
// 0 when there is no reference.
double Score(Metric metric, std::string_view answer, std::span<const std::string> refs);

// How many digits of `key` the answer's first run of digits begins with, white space deleted.
int64_t DigitPrefix(std::string_view answer, std::string_view key);

}  // namespace anchorage::eval::ruler
