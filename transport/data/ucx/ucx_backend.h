// Private to transport/data/: the ucx backend.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "transport/data/backend.h"

namespace anchorage::transport {

// Listens if `options` say so.
absl::StatusOr<std::shared_ptr<DataBackend>> MakeUcxBackend(const DataPlaneOptions& options);

}  // namespace anchorage::transport
