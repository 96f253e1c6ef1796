#include "router/health.h"

#include "common/status.h"

namespace anchorage::router {
namespace {

constexpr int64_t kStuckNs = 30'000'000'000;

}  // namespace

absl::Status Health::Live() const {
  const int64_t silent_ns = clock_.NowNs() - last_beat_ns_;
  if (silent_ns < kStuckNs) return absl::OkStatus();
  return Unavailable("the io thread has been stuck for %d s", silent_ns / 1'000'000'000);
}

}  // namespace anchorage::router
