// Jinja source to tokens, with the whitespace rules of chat templates applied.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace anchorage::text {

enum class TemplateTokenKind {
  kText,         // between tags
  kOutputBegin,  // {{
  kOutputEnd,    // }}
  kBlockBegin,   // {%
  kBlockEnd,     // %}
  kName,
  kString,   // `text` is the value, escapes resolved
  kInteger,  // `text` is the digits
  kOperator,
  kEnd,
};

struct TemplateToken {
  TemplateTokenKind kind;
  std::string text;
  int line;
};

// As Jinja with trim_blocks and lstrip_blocks, which chat templates are written for: a newline
// right after a block tag is dropped, and so is the blank before a block tag that starts its line.
// `-` at a tag's edge strips all whitespace there, `+` keeps it. One newline at the end of the
// source is dropped. The last token is kEnd. InvalidArgument: an unfinished tag, comment or string,
// or a character that no token begins with.
absl::StatusOr<std::vector<TemplateToken>> LexTemplate(std::string_view source);

}  // namespace anchorage::text
