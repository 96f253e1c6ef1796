// What the kernel says this process uses.
#pragma once

#include <cstdint>

namespace anchorage::observe {

struct ProcessUsage {
  double cpu_seconds = 0;  // user + system, all threads
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  int64_t open_fds = 0;
  int64_t max_fds = 0;
  int64_t threads = 0;
  double start_seconds = 0;  // since the Unix epoch
};

// Reads /proc/self. A field that cannot be read is 0.
ProcessUsage ReadProcessUsage();

}  // namespace anchorage::observe
