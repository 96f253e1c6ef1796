#include "observe/host_port.h"

#include <charconv>

#include "common/status.h"

namespace anchorage::observe {

std::string HostPort::ToString() const {
  if (host.find(':') == std::string::npos) return absl::StrFormat("%s:%d", host, port);
  return absl::StrFormat("[%s]:%d", host, port);
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  const absl::Status bad = Invalid("'%s' is not an address: write host:port", text);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad;
  HostPort result;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), result.port);
  if (error != std::errc() || end != digits.data() + digits.size()) return bad;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad;  // an IPv6 address without brackets says nothing about its port
  }
  if (host.empty() || host.size() > 255) return bad;
  result.host = host;
  return result;
}

}  // namespace anchorage::observe
