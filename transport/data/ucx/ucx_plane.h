// Private to transport/data/: the ucx backend.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "transport/data/data_plane.h"

namespace anchorage::transport {

absl::StatusOr<std::unique_ptr<DataPlane>> MakeUcxPlane(const DataPlaneOptions& options);

}  // namespace anchorage::transport
