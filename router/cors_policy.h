// Which web pages may use this service from a browser: cross-origin resource sharing (the Fetch
// standard, "CORS protocol").
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace anchorage::router {

using HeaderFields = std::vector<std::pair<std::string, std::string>>;

class CorsPolicy {
 public:
  // No origin: answers say nothing about origins, and browsers keep them from foreign pages.
  CorsPolicy() = default;

  // `origins`: each "scheme://host" or "scheme://host:port", or "*" for any. InvalidArgument:
  // another shape.
  static absl::StatusOr<CorsPolicy> Create(const std::vector<std::string>& origins);

  // Header fields of every answer to a request of that Origin ("": none was sent).
  HeaderFields ForAnswer(std::string_view origin) const;

  // Those of the answer to a preflight, in addition. `methods`: of the route. `requested`: its
  // Access-Control-Request-Headers, which are allowed as they stand, since clients send headers of
  // their own and ours are judged one by one.
  HeaderFields ForPreflight(std::string_view origin, std::string_view methods,
                            std::string_view requested) const;

 private:
  bool Allows(std::string_view origin) const;

  bool any_ = false;
  std::vector<std::string> origins_;
};

}  // namespace anchorage::router
