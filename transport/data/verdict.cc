#include "transport/data/verdict.h"

namespace anchorage::transport {

std::string VerdictMessage(const absl::Status& verdict) {
  return std::string(verdict.message().substr(0, kMaxVerdictMessageBytes));
}

absl::Status VerdictFromWire(uint32_t code, std::string message) {
  if (code == static_cast<uint32_t>(absl::StatusCode::kOk)) return absl::OkStatus();
  const bool known = code <= static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      message);
}

}  // namespace anchorage::transport
