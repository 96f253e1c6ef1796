// The parsed form of a chat template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/template_value.h"

namespace anchorage::text {

enum class ExprKind {
  kLiteral,      // literal
  kName,         // name
  kList,         // operands: items
  kDict,         // operands: key, value, key, value, ...
  kAttribute,    // operands: object; name
  kIndex,        // operands: object, index
  kSlice,        // operands: object, begin or null, end or null
  kCall,         // operands: callee, arguments...; named
  kFilter,       // operands: input, arguments...; name, named
  kTest,         // operands: input, arguments...; name
  kNot,          // operands: one
  kNegate,       // operands: one
  kBinary,       // operands: left, right; name is the operator
  kAnd,          // operands: left, right
  kOr,           // operands: left, right
  kConditional,  // operands: condition, value, other value or null
};

struct Expr {
  ExprKind kind;
  int line = 0;
  int depth = 1;  // of the tree, this node included
  std::string name;
  Value literal;
  std::vector<std::unique_ptr<Expr>> operands;
  std::vector<std::pair<std::string, std::unique_ptr<Expr>>> named;  // keyword arguments
};

struct Statement;
using Block = std::vector<Statement>;

enum class StatementKind {
  kText,    // expr: a literal
  kOutput,  // expr
  kIf,      // branches
  kFor,     // targets; expr: what is iterated; filter or null; branches: body, else body if any
  kSet,     // targets: one name, or namespace and attribute; expr
};

struct Branch {
  std::unique_ptr<Expr> condition;  // null: always
  Block body;
};

struct Statement {
  StatementKind kind;
  int line = 0;
  std::unique_ptr<Expr> expr;
  std::unique_ptr<Expr> filter;
  std::vector<std::string> targets;
  std::vector<Branch> branches;
};

}  // namespace anchorage::text
