// UTF-8: one code point at a time, and a stream that emits whole characters only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anchorage::text {

inline constexpr uint32_t kReplacementCharacter = 0xFFFD;

void AppendUtf8(uint32_t code_point, std::string& out);

// Whether `text` is well-formed UTF-8 (Unicode 15, table 3-7: no overlong forms, no surrogates).
bool IsValidUtf8(std::string_view text);

// Makes a byte stream, cut anywhere, into well-formed UTF-8. A maximal part of a character that
// cannot be continued becomes one U+FFFD, as the WHATWG decoder and Python's "replace" do.
class Utf8Stream {
 public:
  // The characters that are whole now.
  std::string Push(std::string_view bytes);

  // One U+FFFD if a character was left unfinished.
  std::string Finish();

 private:
  std::string pending_;  // a proper prefix of one well-formed character, at most 3 bytes
};

}  // namespace anchorage::text
