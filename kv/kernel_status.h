// The one translation of what a kernel answers into a status.
#pragma once

#include "absl/status/status.h"
#include "common/status.h"
#include "kernels/types.h"

namespace anchorage::kv {

// `operation` says what was asked, such as "scoring layer 3".
inline absl::Status FromKernel(kernels::Status status, const std::string& operation) {
  switch (status) {
    case kernels::Status::kOk:
      return absl::OkStatus();
    case kernels::Status::kInvalidShape:
      return Invalid("%s: the kernel refused the shape", operation);
    case kernels::Status::kUnsupported:
      return FailedPrecondition("%s: this build has no kernel for it", operation);
    case kernels::Status::kNonFinite:
      return Invalid("%s: NaN or Inf", operation);
  }
  return Internal("%s: unknown kernel status", operation);
}

}  // namespace anchorage::kv
