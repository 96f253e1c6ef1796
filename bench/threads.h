// How many threads a measurement runs on.
#pragma once

#include <algorithm>
#include <thread>

namespace anchorage::bench {

// `asked`, or one for each core when that is not positive.
inline int ThreadsOrAll(int asked) {
  if (asked > 0) return asked;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace anchorage::bench
