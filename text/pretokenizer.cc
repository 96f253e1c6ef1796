#include "text/pretokenizer.h"

#include <utf8proc.h>

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace anchorage::text {
namespace {

enum class Kind : uint8_t { kLetter, kNumber, kSpace, kOther, kEnd };

Kind KindOf(uint32_t code_point) {
  if (IsWhiteSpace(code_point)) return Kind::kSpace;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return Kind::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Kind::kNumber;
    default:
      return Kind::kOther;
  }
}

std::array<Kind, 128> MakeAsciiKinds() {
  std::array<Kind, 128> kinds;
  for (uint32_t c = 0; c < 128; ++c) kinds[c] = KindOf(c);
  return kinds;
}

struct Character {
  Kind kind;
  size_t size;
};

Character CharacterAt(std::string_view text, size_t at) {
  static const std::array<Kind, 128> kAsciiKinds = MakeAsciiKinds();
  if (at >= text.size()) return {Kind::kEnd, 0};
  const unsigned char byte = static_cast<unsigned char>(text[at]);
  if (byte < 128) return {kAsciiKinds[byte], 1};
  const CodePoint code_point = DecodeLenient(text, at);
  return {KindOf(code_point.value), code_point.size};
}

// The end of the run of characters of `kind` that begins at `at`.
size_t EndOfRun(std::string_view text, size_t at, Kind kind) {
  while (true) {
    const Character character = CharacterAt(text, at);
    if (character.kind != kind) return at;
    at += character.size;
  }
}

// Bytes of the contraction at `rest`, 0 if there is none.
size_t ContractionSize(std::string_view rest) {
  for (const std::string_view contraction : {"'s", "'t", "'m", "'d", "'re", "'ve", "'ll"}) {
    if (rest.starts_with(contraction)) return contraction.size();
  }
  return 0;
}

// All of the run of whitespace at `begin` if the text or a number follows it, else all but its last
// character.
size_t EndOfWhiteSpace(std::string_view text, size_t begin) {
  size_t last = begin;
  size_t end = begin;
  Character character = CharacterAt(text, end);
  while (character.kind == Kind::kSpace) {
    last = end;
    end += character.size;
    character = CharacterAt(text, end);
  }
  const bool at_end = character.kind == Kind::kEnd || character.kind == Kind::kNumber;
  return at_end || last == begin ? end : last;
}

}  // namespace

size_t EndOfWord(std::string_view text, size_t begin) {
  const Character first = CharacterAt(text, begin);
  if (first.kind == Kind::kNumber) return begin + first.size;
  if (text[begin] == '\'') {
    const size_t size = ContractionSize(text.substr(begin));
    if (size > 0) return begin + size;
  }
  const size_t body = text[begin] == ' ' ? begin + 1 : begin;
  const Kind kind = CharacterAt(text, body).kind;
  if (kind == Kind::kLetter || kind == Kind::kOther) return EndOfRun(text, body, kind);
  return EndOfWhiteSpace(text, begin);
}

}  // namespace anchorage::text
