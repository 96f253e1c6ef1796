// Private to transport/data/: the tcp backend, framed messages over Asio.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "transport/data/backend.h"

namespace anchorage::transport {

// Listens if `options` say so.
absl::StatusOr<std::shared_ptr<DataBackend>> MakeTcpBackend(const DataPlaneOptions& options);

}  // namespace anchorage::transport
