// JSON as the front door speaks it: strict when read, never invalid when written.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"

namespace anchorage::router {

using Json = nlohmann::ordered_json;  // what we write: keys stay in the order of the code
using ParsedJson = nlohmann::json;    // what we read: finding a key among many is fast

inline constexpr int kMaxJsonDepth = 64;

// Parses one JSON text (RFC 8259). InvalidArgument, with the position: not JSON, invalid UTF-8, a
// lone surrogate, a number beyond double, a NUL byte, a key that stands twice in one object,
// nesting over kMaxJsonDepth, or anything after the value.
absl::StatusOr<ParsedJson> ParseJson(std::string_view text);

// Compact; bytes that are not UTF-8 become U+FFFD.
std::string Dump(const Json& json);

}  // namespace anchorage::router
