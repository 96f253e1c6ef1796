#include "text/template_lexer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "text/utf8.h"

namespace anchorage::text {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

// Longer ones first.
constexpr std::string_view kOperators[] = {"==", "!=", "<=", ">=", "//", "**", "+", "-", "*",
                                           "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                           "]",  "{",  "}",  ",",  ".",  ":",  "|"};

std::string UnifyNewlines(std::string_view source) {
  std::string unified;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      unified += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      unified += '\n';
    }
  }
  if (unified.ends_with('\n')) unified.pop_back();
  return unified;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  absl::StatusOr<std::vector<TemplateToken>> Run() {
    while (at_ < source_.size()) {
      const size_t tag = FindTag();
      LexText(tag);
      if (tag == source_.size()) break;
      RETURN_IF_ERROR(source_[tag + 1] == '#' ? SkipComment() : LexTag());
    }
    Emit(TemplateTokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }

  void Advance(size_t size) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                    source_.begin() + static_cast<ptrdiff_t>(at_ + size), '\n'));
    at_ += size;
  }

  void Emit(TemplateTokenKind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }

  absl::Status Error(std::string_view message) const {
    return Invalid("chat template, line %d: %s", line_, message);
  }

  // The next "{{", "{%" or "{#", or the end.
  size_t FindTag() const {
    for (size_t at = source_.find('{', at_); at != std::string::npos;
         at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() &&
          std::string_view("{%#").find(source_[at + 1]) != std::string::npos) {
        return at;
      }
    }
    return source_.size();
  }

  // Emits the text up to `end`, where a tag or the end of the source is, stripped as the tag asks.
  void LexText(size_t end) {
    std::string text = source_.substr(at_, end - at_);
    if (end < source_.size()) {
      const char mark = end + 2 < source_.size() ? source_[end + 2] : '\0';
      const bool is_output = source_[end + 1] == '{';
      if (mark == '-') {
        text.erase(text.find_last_not_of(kSpace) + 1);
      } else if (mark != '+' && !is_output) {
        StripStartOfLine(text);
      }
    }
    if (!text.empty()) Emit(TemplateTokenKind::kText, std::move(text));
    Advance(end - at_);
  }

  // Drops what follows the last newline if it is blank.
  void StripStartOfLine(std::string& text) const {
    const size_t line = text.rfind('\n') + 1;
    if (line == 0 && !at_line_start_) return;
    if (text.find_first_not_of(kSpace, line) == std::string::npos) text.erase(line);
  }

  // Moves past a tag's closing characters of `size`, of which `mark` is the one before them.
  void CloseTag(char mark, size_t size, bool is_output) {
    Advance(size);
    const size_t before = at_;
    if (mark == '-') {
      Advance(std::min(Rest().find_first_not_of(kSpace), Rest().size()));
    } else if (mark != '+' && !is_output && Rest().starts_with('\n')) {
      Advance(1);
    }
    at_line_start_ = at_ > before && source_[at_ - 1] == '\n';
  }

  absl::Status SkipComment() {
    const size_t end = source_.find("#}", at_ + 2);
    if (end == std::string::npos) return Error("a comment is not closed");
    const char mark = end > at_ + 2 ? source_[end - 1] : '\0';
    Advance(end - at_);
    CloseTag(mark, 2, /*is_output=*/false);
    return absl::OkStatus();
  }

  absl::Status LexTag() {
    const bool is_output = source_[at_ + 1] == '{';
    const std::string_view close = is_output ? "}}" : "%}";
    Emit(is_output ? TemplateTokenKind::kOutputBegin : TemplateTokenKind::kBlockBegin, "");
    Advance(2);
    if (Rest().starts_with('-') || Rest().starts_with('+')) Advance(1);
    int depth = 0;  // of brackets: inside them "}}" closes dicts
    while (true) {
      Advance(std::min(Rest().find_first_not_of(kSpace), Rest().size()));
      if (Rest().empty()) return Error("a tag is not closed");
      const bool has_mark = Rest()[0] == '-' || Rest()[0] == '+';
      if (depth == 0 && Rest().substr(has_mark ? 1 : 0).starts_with(close)) {
        Emit(is_output ? TemplateTokenKind::kOutputEnd : TemplateTokenKind::kBlockEnd, "");
        CloseTag(Rest()[0], has_mark ? 3 : 2, is_output);
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(LexToken());
      const std::string& last = tokens_.back().text;
      if (tokens_.back().kind != TemplateTokenKind::kOperator) continue;
      if (last == "(" || last == "[" || last == "{") ++depth;
      if (last == ")" || last == "]" || last == "}") depth = std::max(depth - 1, 0);
    }
  }

  absl::Status LexToken() {
    const char first = Rest()[0];
    if (first == '\'' || first == '"') return LexString(first);
    const bool is_number = kDigits.find(first) != std::string_view::npos;
    const std::string_view characters = is_number ? kDigits : kNameCharacters;
    const size_t size = std::min(Rest().find_first_not_of(characters), Rest().size());
    if (size > 0) {
      Emit(is_number ? TemplateTokenKind::kInteger : TemplateTokenKind::kName,
           std::string(Rest().substr(0, size)));
      Advance(size);
      return absl::OkStatus();
    }
    for (const std::string_view op : kOperators) {
      if (!Rest().starts_with(op)) continue;
      Emit(TemplateTokenKind::kOperator, std::string(op));
      Advance(op.size());
      return absl::OkStatus();
    }
    return Error("a character that means nothing here");
  }

  absl::Status LexString(char quote) {
    std::string value;
    size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] == '\\' && i + 1 < source_.size()) {
        i += LexEscape(i, value);
      } else {
        value += source_[i++];
      }
    }
    if (i >= source_.size()) return Error("a string is not closed");
    Emit(TemplateTokenKind::kString, std::move(value));
    Advance(i + 1 - at_);
    return absl::OkStatus();
  }

  // Appends what the backslash at `i` and its followers stand for; returns how many bytes they are.
  size_t LexEscape(size_t i, std::string& value) const {
    const char kind = source_[i + 1];
    const size_t num_digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 0;
    if (num_digits > 0 && i + 2 + num_digits <= source_.size()) {
      uint32_t code_point = 0;
      bool all_hex = true;
      for (size_t d = 0; d < num_digits; ++d) {
        const int digit = HexDigit(source_[i + 2 + d]);
        all_hex &= digit >= 0;
        code_point = code_point << 4 | static_cast<uint32_t>(digit & 0xF);
      }
      if (all_hex) {
        AppendUtf8(code_point, value);
        return 2 + num_digits;
      }
    }
    static constexpr std::pair<char, char> kSimple[] = {{'n', '\n'},  {'t', '\t'},  {'r', '\r'},
                                                        {'\\', '\\'}, {'\'', '\''}, {'"', '"'}};
    for (const auto& [name, meaning] : kSimple) {
      if (kind != name) continue;
      value += meaning;
      return 2;
    }
    value += '\\';
    return 1;
  }

  std::string source_;
  std::vector<TemplateToken> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // whether the text at at_ begins a line
};

}  // namespace

absl::StatusOr<std::vector<TemplateToken>> LexTemplate(std::string_view source) {
  return Lexer(UnifyNewlines(source)).Run();
}

}  // namespace anchorage::text
