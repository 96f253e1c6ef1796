#include "router/routes.h"

#include <charconv>

namespace anchorage::router {
namespace {

constexpr char kPost[] = "POST, OPTIONS";
constexpr char kGet[] = "GET, HEAD, OPTIONS";
constexpr std::string_view kModelPrefix = "/v1/models/";

struct KnownRoute {
  const char* path;
  Route route;
  const char* methods;
};
constexpr KnownRoute kRoutes[] = {
    {"/v1/chat/completions", Route::kChat, kPost},
    {"/v1/completions", Route::kCompletions, kPost},
    {"/v1/models", Route::kModels, kGet},
    {"/tokenize", Route::kTokenize, kPost},
    {"/detokenize", Route::kDetokenize, kPost},
    {"/health", Route::kReady, kGet},
    {"/ready", Route::kReady, kGet},
    {"/live", Route::kLive, kGet},
    {"/version", Route::kVersion, kGet},
};

std::string PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 2, byte, 16).ptr == &text[i + 1] + 2) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

}  // namespace

bool RouteMatch::Allows(std::string_view method) const {
  if (route == Route::kUnknown) return true;
  std::string_view rest = methods;
  while (!rest.empty()) {
    const size_t comma = rest.find(", ");
    if (rest.substr(0, comma) == method) return true;
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 2);
  }
  return false;
}

std::string_view PathOf(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const size_t slash = target.find('/', scheme.size());
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
    break;
  }
  return target.substr(0, target.find_first_of("?#"));
}

RouteMatch MatchRoute(std::string_view target) {
  std::string_view path = PathOf(target);
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  for (const KnownRoute& known : kRoutes) {
    if (path == known.path) return {known.route, known.path, known.methods, ""};
  }
  if (path.starts_with(kModelPrefix)) {
    return {Route::kModel, "/v1/models/{id}", kGet,
            PercentDecode(path.substr(kModelPrefix.size()))};
  }
  return {};
}

}  // namespace anchorage::router
