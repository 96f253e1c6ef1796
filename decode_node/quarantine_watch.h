// Whether memory comes back from quarantine as it should. A cancelled request's transfer is over
// within milliseconds, and on a small node one of them is a large share for so long: only what
// lasts means that the node should take no more work.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "decode_node/core/arena.h"

namespace anchorage::decode {

// Thread-safe.
class QuarantineWatch {
 public:
  // Unavailable once more than 5 % of the memory or 64 regions were in quarantine at every call for
  // five seconds. To be asked every second or so.
  absl::Status Judge(const ArenaUsage& usage, int64_t now_ns);

 private:
  static constexpr int64_t kNever = -1;

  Mutex mutex_;
  int64_t over_since_ns_ GUARDED_BY(mutex_) = kNever;
};

}  // namespace anchorage::decode
