// Short names for the statuses that rooms return, with printf formatting.
//
// The code tells the caller what to do: InvalidArgument = the client's fault, FailedPrecondition =
// do not retry, Aborted = redo the request, Unavailable = retry the call, ResourceExhausted = no
// memory now, push back, DeadlineExceeded = time is over, DataLoss = bytes are wrong.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

namespace anchorage {

template <typename... Args>
absl::Status MakeStatus(absl::StatusCode code, const absl::FormatSpec<Args...>& format,
                        const Args&... args) {
  return absl::Status(code, absl::StrFormat(format, args...));
}

template <typename... Args>
absl::Status Invalid(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, format, args...);
}

template <typename... Args>
absl::Status FailedPrecondition(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return MakeStatus(absl::StatusCode::kFailedPrecondition, format, args...);
}

template <typename... Args>
absl::Status Exhausted(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return MakeStatus(absl::StatusCode::kResourceExhausted, format, args...);
}

template <typename... Args>
absl::Status Unavailable(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return MakeStatus(absl::StatusCode::kUnavailable, format, args...);
}

template <typename... Args>
absl::Status DataLoss(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return MakeStatus(absl::StatusCode::kDataLoss, format, args...);
}

template <typename... Args>
absl::Status NotFound(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return MakeStatus(absl::StatusCode::kNotFound, format, args...);
}

template <typename... Args>
absl::Status Internal(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return MakeStatus(absl::StatusCode::kInternal, format, args...);
}

// `status` with `context: ` put before its message; OK stays OK.
inline absl::Status Annotate(const absl::Status& status, const std::string& context) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrFormat("%s: %s", context, std::string(status.message())));
}

}  // namespace anchorage
