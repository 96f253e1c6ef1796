#include "router/cors_policy.h"

#include <algorithm>
#include <cctype>

#include "common/status.h"

namespace anchorage::router {
namespace {

constexpr char kPreflightSeconds[] = "600";

bool IsOrigin(std::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const std::string_view host = text.substr(scheme + 3);
  const auto fits = [](unsigned char c) { return c > 0x20 && c < 0x7f && !std::isupper(c); };
  return !host.empty() && host.find_first_of("/?#@,*") == std::string_view::npos &&
         std::all_of(text.begin(), text.end(), fits);
}

// Names of header fields, separated by commas: nothing that could end the line.
bool IsFieldList(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == ',' || c == ' ';
  });
}

}  // namespace

absl::StatusOr<CorsPolicy> CorsPolicy::Create(const std::vector<std::string>& origins) {
  CorsPolicy policy;
  for (const std::string& origin : origins) {
    if (origin == "*") {
      policy.any_ = true;
    } else if (IsOrigin(origin)) {
      policy.origins_.push_back(origin);
    } else {
      return Invalid("'%s' is not an origin such as https://chat.example.org", origin);
    }
  }
  return policy;
}

bool CorsPolicy::Allows(std::string_view origin) const {
  if (origin.empty()) return false;
  return any_ || std::find(origins_.begin(), origins_.end(), origin) != origins_.end();
}

HeaderFields CorsPolicy::ForAnswer(std::string_view origin) const {
  HeaderFields fields;
  // A cache must not hand one origin's answer to another.
  if (!any_ && !origins_.empty()) fields.emplace_back("Vary", "Origin");
  if (!Allows(origin)) return fields;
  fields.emplace_back("Access-Control-Allow-Origin", any_ ? "*" : std::string(origin));
  fields.emplace_back("Access-Control-Expose-Headers",
                      "x-request-id, openai-processing-ms, retry-after");
  return fields;
}

HeaderFields CorsPolicy::ForPreflight(std::string_view origin, std::string_view methods,
                                      std::string_view requested) const {
  HeaderFields fields;
  if (!Allows(origin)) return fields;
  fields.emplace_back("Access-Control-Allow-Methods", methods);
  if (IsFieldList(requested)) fields.emplace_back("Access-Control-Allow-Headers", requested);
  fields.emplace_back("Access-Control-Max-Age", kPreflightSeconds);
  return fields;
}

}  // namespace anchorage::router
