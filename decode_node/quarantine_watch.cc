#include "decode_node/quarantine_watch.h"

#include "common/status.h"

namespace anchorage::decode {
namespace {

constexpr int64_t kMaxRegions = 64;
constexpr double kMaxShare = 0.05;
constexpr int64_t kGraceNs = 5'000'000'000;

bool IsOver(const ArenaUsage& usage) {
  return usage.quarantined_regions > kMaxRegions ||
         static_cast<double>(usage.quarantined_bytes) >
             kMaxShare * static_cast<double>(usage.limit_bytes);
}

}  // namespace

absl::Status QuarantineWatch::Judge(const ArenaUsage& usage, int64_t now_ns) {
  MutexLock lock(mutex_);
  if (!IsOver(usage)) {
    over_since_ns_ = kNever;
    return absl::OkStatus();
  }
  if (over_since_ns_ == kNever) over_since_ns_ = now_ns;
  if (now_ns - over_since_ns_ < kGraceNs) return absl::OkStatus();
  return Unavailable("%d bytes in %d regions have been in quarantine for %d s",
                     usage.quarantined_bytes, usage.quarantined_regions,
                     (now_ns - over_since_ns_) / 1'000'000'000);
}

}  // namespace anchorage::decode
