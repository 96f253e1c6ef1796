// Byte sizes as people write them: "1GiB", "512MiB", "4096".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace anchorage {

// Parses a decimal number with an optional unit (B, KiB, MiB, GiB, TiB, KB, MB, GB, TB).
// InvalidArgument: empty, negative, unknown unit, or above 2^62.
absl::StatusOr<int64_t> ParseBytes(std::string_view text);

// "103.0 KiB": one decimal, binary units.
std::string FormatBytes(int64_t bytes);

// An integer a flag or file may name as big as it likes: a * b, or InvalidArgument on overflow.
absl::StatusOr<int64_t> CheckedMul(int64_t a, int64_t b);

}  // namespace anchorage
