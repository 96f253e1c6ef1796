// Limits and settings of the HTTP interface.
#pragma once

#include <cstdint>
#include <string>

#include "router/cors_policy.h"

namespace anchorage::router {

struct HttpOptions {
  std::string listen;   // "host:port", port 0 = any
  std::string api_key;  // "": none is asked for
  CorsPolicy cors;      // by default no page of another origin may read answers
  int max_connections = 4096;
  int64_t max_header_bytes = 32 << 10;
  int64_t max_body_bytes = 4 << 20;
  int64_t header_timeout_ms = 10'000;  // from a request's first byte to the end of its headers
  int64_t body_timeout_ms = 60'000;    // from there to the end of its body
  int64_t idle_timeout_ms = 120'000;   // between two requests; longer than proxies keep theirs
  int64_t write_timeout_ms = 30'000;   // of one write
  int64_t keep_alive_ms = 10'000;      // silence after which a stream gets a comment
};

}  // namespace anchorage::router
