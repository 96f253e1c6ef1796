// Private to transport/data/: the tcp backend, framed messages over Asio on a thread of its own.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "transport/data/data_plane.h"

namespace anchorage::transport {

absl::StatusOr<std::unique_ptr<DataPlane>> MakeTcpPlane(const DataPlaneOptions& options);

}  // namespace anchorage::transport
