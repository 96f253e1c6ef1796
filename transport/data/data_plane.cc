#include "transport/data/data_plane.h"

#include "common/status.h"
#include "transport/data/tcp/tcp_plane.h"
#include "transport/data/ucx/ucx_plane.h"

namespace anchorage::transport {

absl::StatusOr<std::unique_ptr<DataPlane>> MakeDataPlane(const std::string& kind,
                                                         const DataPlaneOptions& options) {
  if (options.listen.empty() != (options.receiver == nullptr)) {
    return Invalid("a data plane that listens needs a receiver, and one that does not has none");
  }
  if (options.stall_timeout_ms <= 0) return Invalid("the stall time-out must be above 0");
  if (kind == "tcp") return MakeTcpPlane(options);
  if (kind == "ucx") return MakeUcxPlane(options);
  return Invalid("'%s' is no data transport: choose ucx or tcp", kind);
}

}  // namespace anchorage::transport
