// Private to transport/: Asio's errors as statuses.
#pragma once

#include <boost/system/error_code.hpp>
#include <string_view>

#include "absl/status/status.h"

namespace anchorage::transport {

// OK for success. Cancelled: we closed it ourselves. FailedPrecondition: the address is not ours to
// listen on. Unavailable: everything else a network does. `what` says which operation on which
// peer.
absl::Status FromErrorCode(const boost::system::error_code& error, std::string_view what);

}  // namespace anchorage::transport
