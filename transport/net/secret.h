// Shared secrets.
#pragma once

#include <string_view>

namespace anchorage::transport {

// Whether two secrets are the same, in a time that tells nothing about where they differ.
bool SameSecret(std::string_view a, std::string_view b);

}  // namespace anchorage::transport
