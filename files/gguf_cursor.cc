#include "files/gguf_cursor.h"

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "common/status.h"

namespace anchorage::files {
namespace {

constexpr uint64_t kMaxNameBytes = 65535;

// Names end up in error messages and terminals, so control characters are refused.
bool IsPrintableName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](unsigned char c) { return c >= 0x20 && c != 0x7F; });
}

std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 100;
  const std::string_view shown = text.substr(0, kShown);
  return absl::StrFormat("'%s'%s", absl::CHexEscape(absl::string_view(shown.data(), shown.size())),
                         text.size() > kShown ? "..." : "");
}

}  // namespace

absl::StatusOr<std::span<const std::byte>> GgufCursor::Take(uint64_t size, std::string_view what) {
  if (size > remaining()) {
    return Invalid("offset %d: %s needs %d bytes, but only %d are left", offset_, what, size,
                   remaining());
  }
  const auto taken = bytes_.subspan(offset_, size);
  offset_ += size;
  return taken;
}

absl::StatusOr<std::string_view> GgufCursor::ReadString(std::string_view what) {
  ASSIGN_OR_RETURN(const uint64_t size, Read<uint64_t>(what));
  ASSIGN_OR_RETURN(const auto bytes, Take(size, what));
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

absl::StatusOr<std::string_view> GgufCursor::ReadName(std::string_view what) {
  const uint64_t at = offset_;
  ASSIGN_OR_RETURN(const std::string_view name, ReadString(what));
  if (name.size() > kMaxNameBytes || !IsPrintableName(name)) {
    return Invalid("offset %d: %s %s is empty, too long or has control characters", at, what,
                   Quoted(name));
  }
  return name;
}

}  // namespace anchorage::files
