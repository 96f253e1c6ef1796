#include "transport/data/ucx/ucs_status.h"

#include "common/status.h"

namespace anchorage::transport {
namespace {

absl::StatusCode CodeOf(ucs_status_t status) {
  switch (status) {
    case UCS_OK:
    case UCS_INPROGRESS:
      return absl::StatusCode::kOk;
    case UCS_ERR_CANCELED:
      return absl::StatusCode::kCancelled;
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
      return absl::StatusCode::kResourceExhausted;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
      return absl::StatusCode::kInvalidArgument;
    case UCS_ERR_BUSY:
    case UCS_ERR_REJECTED:
    case UCS_ERR_NO_DEVICE:
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_ALREADY_EXISTS:
      return absl::StatusCode::kFailedPrecondition;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_IO_ERROR:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status StatusFromUcs(ucs_status_t status, std::string_view what) {
  const absl::StatusCode code = CodeOf(status);
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  return MakeStatus(code, "%s: %s", what, ucs_status_string(status));
}

}  // namespace anchorage::transport
