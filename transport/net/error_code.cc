#include "transport/net/error_code.h"

#include <boost/asio/error.hpp>

#include "common/status.h"

namespace anchorage::transport {

absl::Status FromErrorCode(const boost::system::error_code& error, std::string_view what) {
  namespace asio_error = boost::asio::error;
  if (!error) return absl::OkStatus();
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (error == asio_error::operation_aborted || error == asio_error::bad_descriptor) {
    code = absl::StatusCode::kCancelled;
  } else if (error == asio_error::address_in_use || error == asio_error::access_denied ||
             error == boost::system::errc::address_not_available) {
    code = absl::StatusCode::kFailedPrecondition;
  }
  if (error == asio_error::eof) return MakeStatus(code, "%s: the peer closed the connection", what);
  return MakeStatus(code, "%s: %s", what, error.message());
}

}  // namespace anchorage::transport
