// Private to transport/data/: a status as it travels back to the sender.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace anchorage::transport {

inline constexpr size_t kMaxVerdictMessageBytes = 1024;

// The status's message, cut to what travels.
std::string VerdictMessage(const absl::Status& verdict);

// A code that we do not know becomes Unknown; OK has no message.
absl::Status VerdictFromWire(uint32_t code, std::string message);

}  // namespace anchorage::transport
