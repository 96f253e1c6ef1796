// Tokens of a chat template to its tree.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "text/template_ast.h"

namespace anchorage::text {

// Deeper nesting, of expressions or of blocks, is refused: evaluation recurses along it.
inline constexpr int kMaxTemplateDepth = 200;

// InvalidArgument: not Jinja, a statement that is not supported, or nested too deep; with the line.
absl::StatusOr<Block> ParseTemplate(std::string_view source);

}  // namespace anchorage::text
