// UTF-8: one code point at a time, and a stream that emits whole characters only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anchorage::text {

inline constexpr uint32_t kReplacementCharacter = 0xFFFD;

void AppendUtf8(uint32_t code_point, std::string& out);

// The Unicode property White_Space.
bool IsWhiteSpace(uint32_t code_point);

// Whether `text` is well-formed UTF-8 (Unicode 15, table 3-7: no overlong forms, no surrogates).
bool IsValidUtf8(std::string_view text);

struct CodePoint {
  uint32_t value;
  size_t size;  // bytes it was read from
};

// The code point at `at` < text.size(), by the structure of its bytes alone: overlong forms and
// surrogates pass, as in llama.cpp, whose token ids ours must equal. A byte that fits no structure,
// or begins a value above U+10FFFF, is U+FFFD of size 1.
CodePoint DecodeLenient(std::string_view text, size_t at);

// Well-formed text unchanged; otherwise every code point that DecodeLenient sees, written anew.
std::string RewriteLenient(std::string_view text);

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
