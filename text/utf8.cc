#include "text/utf8.h"

namespace anchorage::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Fit {
  kWhole,    // one well-formed character
  kPrefix,   // may become one
  kInvalid,  // can never become one
};

struct Head {
  Fit fit;
  size_t size;  // bytes of the character, of the prefix, or of the maximal part to replace
};

unsigned char ByteAt(std::string_view bytes, size_t i) {
  return static_cast<unsigned char>(bytes[i]);
}

// Looks at the first character of non-empty `bytes` (Unicode 15, table 3-7).
Head Classify(std::string_view bytes) {
  const unsigned char lead = ByteAt(bytes, 0);
  if (lead < 0x80) return {Fit::kWhole, 1};
  size_t size = 0;
  if (lead >= 0xC2 && lead <= 0xDF) size = 2;
  if (lead >= 0xE0 && lead <= 0xEF) size = 3;
  if (lead >= 0xF0 && lead <= 0xF4) size = 4;
  if (size == 0) return {Fit::kInvalid, 1};
  for (size_t i = 1; i < size; ++i) {
    if (i == bytes.size()) return {Fit::kPrefix, i};
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (i == 1) {  // no overlong forms, no surrogates, nothing above U+10FFFF
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (ByteAt(bytes, i) < low || ByteAt(bytes, i) > high) return {Fit::kInvalid, i};
  }
  return {Fit::kWhole, size};
}

}  // namespace

void AppendUtf8(uint32_t code_point, std::string& out) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool IsWhiteSpace(uint32_t code_point) {
  const uint32_t c = code_point;
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const Head head = Classify(text);
    if (head.fit != Fit::kWhole) return false;
    text.remove_prefix(head.size);
  }
  return true;
}

CodePoint DecodeLenient(std::string_view text, size_t at) {
  constexpr CodePoint kBad = {kReplacementCharacter, 1};
  const unsigned char lead = ByteAt(text, at);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC0 || lead >= 0xF8) return kBad;
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() - at < size) return kBad;
  uint32_t value = lead & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    const unsigned char byte = ByteAt(text, at + i);
    if ((byte & 0xC0) != 0x80) return kBad;
    value = value << 6 | (byte & 0x3F);
  }
  if (value > 0x10FFFF) return kBad;
  return {value, size};
}

std::string RewriteLenient(std::string_view text) {
  if (IsValidUtf8(text)) return std::string(text);
  std::string rewritten;
  rewritten.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint code_point = DecodeLenient(text, at);
    AppendUtf8(code_point.value, rewritten);
    at += code_point.size;
  }
  return rewritten;
}

std::string Utf8Stream::Push(std::string_view bytes) {
  pending_ += bytes;
  std::string_view rest = pending_;
  std::string out;
  while (!rest.empty()) {
    const Head head = Classify(rest);
    if (head.fit == Fit::kPrefix) break;
    out += head.fit == Fit::kWhole ? rest.substr(0, head.size) : kReplacement;
    rest.remove_prefix(head.size);
  }
  pending_ = std::string(rest);
  return out;
}

std::string Utf8Stream::Finish() {
  const bool unfinished = !pending_.empty();
  pending_.clear();
  return unfinished ? std::string(kReplacement) : std::string();
}

}  // namespace anchorage::text
