#include "transport/data/data_plane.h"

#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "transport/data/tcp/tcp_backend.h"
#include "transport/data/threaded_plane.h"
#include "transport/data/ucx/ucx_backend.h"

namespace anchorage::transport {
namespace {

absl::StatusOr<std::shared_ptr<DataBackend>> MakeBackend(const std::string& kind,
                                                         const DataPlaneOptions& options) {
  if (kind == "tcp") return MakeTcpBackend(options);
  if (kind == "ucx") return MakeUcxBackend(options);
  return Invalid("'%s' is no data transport: choose ucx or tcp", kind);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataPlane>> MakeDataPlane(const std::string& kind,
                                                         const DataPlaneOptions& options) {
  if (options.listen.empty() != (options.receiver == nullptr)) {
    return Invalid("a data plane that listens needs a receiver, and one that does not has none");
  }
  if (options.stall_timeout_ms <= 0) return Invalid("the stall time-out must be above 0");
  ASSIGN_OR_RETURN(std::shared_ptr<DataBackend> backend, MakeBackend(kind, options));
  return std::make_unique<ThreadedPlane>(std::move(backend));
}

}  // namespace anchorage::transport
