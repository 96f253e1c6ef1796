#include "router/request_headers.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_format.h"
#include "common/ids.h"

namespace anchorage::router {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

bool IsLowerHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

std::string RequestIdOf(std::string_view header) {
  const auto is_visible = [](char c) { return c > 0x20 && c < 0x7f; };
  if (!header.empty() && header.size() <= kMaxRequestIdBytes &&
      std::all_of(header.begin(), header.end(), is_visible)) {
    return std::string(header);
  }
  return absl::StrFormat("req-%016x", RandomU64());
}

// version "-" trace id "-" parent id "-" flags. Later versions may add fields at the end.
std::string TraceIdOf(std::string_view traceparent) {
  constexpr size_t kLength = 55;
  if (traceparent.size() < kLength) return "";
  const std::string_view version = traceparent.substr(0, 2);
  const std::string_view trace_id = traceparent.substr(3, 32);
  const std::string_view parent_id = traceparent.substr(36, 16);
  const std::string_view flags = traceparent.substr(53, 2);
  if (traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-') return "";
  for (const std::string_view field : {version, trace_id, parent_id, flags}) {
    if (!IsLowerHex(field)) return "";
  }
  if (version == "ff" || IsZero(trace_id) || IsZero(parent_id)) return "";
  const std::string_view rest = traceparent.substr(kLength);
  if (!rest.empty() && (version == "00" || rest.front() != '-')) return "";
  return std::string(trace_id);
}

bool IsJson(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  constexpr std::string_view kSuffix = "+json";
  return EqualsIgnoringCase(type, "application/json") ||
         (type.size() > kSuffix.size() &&
          EqualsIgnoringCase(type.substr(type.size() - kSuffix.size()), kSuffix));
}

bool HasBearer(std::string_view authorization, std::string_view key) {
  constexpr std::string_view kBearer = "Bearer ";
  if (!authorization.starts_with(kBearer)) return false;
  const std::string_view shown = authorization.substr(kBearer.size());
  if (shown.size() != key.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < key.size(); ++i) {
    difference |= static_cast<unsigned char>(shown[i] ^ key[i]);
  }
  return difference == 0;
}

}  // namespace anchorage::router
