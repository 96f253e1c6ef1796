// One HTTP request of a connection, and what its answer must know of it.
#pragma once

#include <cstdint>
#include <string>

#include "router/cors_policy.h"
#include "router/routes.h"

namespace anchorage::router {

struct Exchange {
  RouteMatch match;
  std::string method;
  std::string request_id;    // the client's x-request-id, or one of ours
  std::string log_id;        // the same, with the trace id where the client sent one
  HeaderFields cors_fields;  // of the answer
  int64_t started_ns = 0;
  unsigned version = 11;    // of HTTP: 10 or 11
  bool keep_alive = false;  // the connection may be used again
  bool known_model = true;
  bool counted = false;  // in the metrics, which happens once
};

}  // namespace anchorage::router
