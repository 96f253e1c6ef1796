// Which paths exist, and which methods each takes.
#pragma once

#include <string>
#include <string_view>

namespace anchorage::router {

enum class Route {
  kUnknown,
  kChat,
  kCompletions,
  kModels,
  kModel,
  kTokenize,
  kDetokenize,
  kReady,
  kLive,
  kVersion,
};

struct RouteMatch {
  Route route = Route::kUnknown;
  const char* label = "other";  // for metrics: the pattern, never what the client wrote
  const char* methods = "";     // for Allow
  std::string argument;         // the id in /v1/models/{id}, percent-decoded

  bool Allows(std::string_view method) const;  // an unknown route allows everything
};

// `target` as it stands in the request line: a path with or without query, or an absolute URL.
RouteMatch MatchRoute(std::string_view target);

// The path of a target, without scheme, authority and query.
std::string_view PathOf(std::string_view target);

}  // namespace anchorage::router
