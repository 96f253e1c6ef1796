// The one translation from what a kernel answers to what a room answers.
#pragma once

#include "absl/status/status.h"
#include "common/status.h"
#include "kernels/types.h"

namespace anchorage::model {

// `operation` names the kernel and, where it helps, the layer.
inline absl::Status FromKernel(kernels::Status status, const char* operation) {
  switch (status) {
    case kernels::Status::kOk:
      return absl::OkStatus();
    case kernels::Status::kInvalidShape:
      return Internal("%s: sizes disagree", operation);
    case kernels::Status::kUnsupported:
      return FailedPrecondition("%s: no kernel for this type or size", operation);
    case kernels::Status::kNonFinite:
      return DataLoss("%s: NaN or infinite values", operation);
  }
  return Internal("%s: unknown kernel status", operation);
}

}  // namespace anchorage::model
