#pragma once

#include <cstdint>

namespace anchorage {

// Of the control channel's messages and of the data plane's headers. Raised when either changes its
// meaning: processes of different versions refuse each other in words.
inline constexpr uint32_t kWireVersion = 1;

}  // namespace anchorage
