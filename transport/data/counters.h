// Private to transport/data/: what a plane counts, written on its thread and read on any.
#pragma once

#include <atomic>
#include <cstdint>

#include "transport/data/data_plane.h"

namespace anchorage::transport {

struct Counters {
  std::atomic<int64_t> sent_bytes{0};
  std::atomic<int64_t> received_bytes{0};
  std::atomic<int64_t> sends_in_flight{0};
  std::atomic<int64_t> landings_in_flight{0};
  std::atomic<int64_t> open_endpoints{0};

  DataPlaneStats Read() const {
    return {sent_bytes.load(), received_bytes.load(), sends_in_flight.load(),
            landings_in_flight.load(), open_endpoints.load()};
  }
};

}  // namespace anchorage::transport
