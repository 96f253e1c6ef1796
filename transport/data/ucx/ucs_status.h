// Private to transport/data/: UCX's statuses as ours.
#pragma once

#include <ucs/type/status.h>

#include <string_view>

#include "absl/status/status.h"

namespace anchorage::transport {

// OK and "in progress" are OK. Unavailable: the peer is gone or cannot be reached. Cancelled:
// closed by force. FailedPrecondition: refused, port taken, no such device. What is not known is
// Internal.
absl::Status StatusFromUcs(ucs_status_t status, std::string_view what);

}  // namespace anchorage::transport
