// "host:port" as flags name it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace anchorage::observe {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  uint16_t port = 0;

  std::string ToString() const;  // with brackets where needed
};

// "127.0.0.1:8080", "localhost:0", "[::1]:80". InvalidArgument: anything else.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

}  // namespace anchorage::observe
