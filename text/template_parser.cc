#include "text/template_parser.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/numbers.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "text/template_lexer.h"

// A recursive descent. From loosest to tightest, as in Jinja: a if c else b; or; and; not;
// comparisons and in; + -; ~; * / // %; unary -; then . [] () and | is.

namespace anchorage::text {
namespace {

using ExprPtr = std::unique_ptr<Expr>;

class Parser {
 public:
  explicit Parser(std::vector<TemplateToken> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<Block> Run() {
    ASSIGN_OR_RETURN(Block block, ParseBlock({}));
    if (Peek().kind != TemplateTokenKind::kEnd) return Unexpected();
    return block;
  }

 private:
  // Counts a level of recursion for as long as it lives.
  class Level {
   public:
    explicit Level(int* depth) : depth_(depth) { ++*depth_; }
    ~Level() { --*depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int* depth_;
  };

  const TemplateToken& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }

  absl::Status Error(std::string_view message) const {
    return Invalid("chat template, line %d: %s", Peek().line, message);
  }

  absl::Status Unexpected() const {
    switch (Peek().kind) {
      case TemplateTokenKind::kEnd:
        return Error("the template ends too early");
      case TemplateTokenKind::kOutputEnd:
      case TemplateTokenKind::kBlockEnd:
        return Error("a tag ends too early");
      default:
        return Error(absl::StrFormat("unexpected '%s'", Peek().text.substr(0, 40)));
    }
  }

  bool IsOperator(std::string_view op) const {
    return Peek().kind == TemplateTokenKind::kOperator && Peek().text == op;
  }
  bool IsName(std::string_view name, size_t ahead = 0) const {
    return Peek(ahead).kind == TemplateTokenKind::kName && Peek(ahead).text == name;
  }
  bool TakeOperator(std::string_view op) {
    if (!IsOperator(op)) return false;
    ++at_;
    return true;
  }
  bool TakeName(std::string_view name) {
    if (!IsName(name)) return false;
    ++at_;
    return true;
  }
  absl::Status ExpectOperator(std::string_view op) {
    return TakeOperator(op) ? absl::OkStatus() : Unexpected();
  }
  absl::Status Expect(TemplateTokenKind kind) {
    if (Peek().kind != kind) return Unexpected();
    ++at_;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> ExpectName() {
    if (Peek().kind != TemplateTokenKind::kName) return Unexpected();
    return tokens_[at_++].text;
  }

  // --- statements ---

  // Statements up to a tag whose name is one of `ends` (not consumed), or to the end.
  absl::StatusOr<Block> ParseBlock(std::initializer_list<std::string_view> ends) {
    const Level level(&block_depth_);
    if (block_depth_ > kMaxTemplateDepth) return Error("blocks are nested too deep");
    Block block;
    while (Peek().kind != TemplateTokenKind::kEnd) {
      if (Peek().kind == TemplateTokenKind::kBlockBegin) {
        for (const std::string_view end : ends) {
          if (IsName(end, 1)) return block;
        }
      }
      ASSIGN_OR_RETURN(Statement statement, ParseStatement());
      block.push_back(std::move(statement));
    }
    if (ends.size() > 0) return Error(absl::StrFormat("'%s' is missing", *(ends.end() - 1)));
    return block;
  }

  absl::StatusOr<Statement> ParseStatement() {
    Statement statement;
    statement.line = Peek().line;
    if (Peek().kind == TemplateTokenKind::kText) {
      statement.kind = StatementKind::kText;
      statement.expr = Literal(Value::OfText(MarkedText(Peek().text, /*from_user=*/false)));
      ++at_;
      return statement;
    }
    if (Peek().kind == TemplateTokenKind::kOutputBegin) {
      ++at_;
      statement.kind = StatementKind::kOutput;
      ASSIGN_OR_RETURN(statement.expr, ParseExpr());
      RETURN_IF_ERROR(Expect(TemplateTokenKind::kOutputEnd));
      return statement;
    }
    RETURN_IF_ERROR(Expect(TemplateTokenKind::kBlockBegin));
    if (TakeName("if")) return ParseIf(std::move(statement));
    if (TakeName("for")) return ParseFor(std::move(statement));
    if (TakeName("set")) return ParseSet(std::move(statement));
    return Error(absl::StrFormat("statement '%s' is not supported", Peek().text.substr(0, 40)));
  }

  absl::Status ExpectTag(std::string_view name) {
    RETURN_IF_ERROR(Expect(TemplateTokenKind::kBlockBegin));
    if (!TakeName(name)) return Unexpected();
    return Expect(TemplateTokenKind::kBlockEnd);
  }

  absl::StatusOr<Statement> ParseIf(Statement statement) {
    statement.kind = StatementKind::kIf;
    bool has_else = false;
    do {
      Branch branch;
      if (!has_else) {
        ASSIGN_OR_RETURN(branch.condition, ParseExpr());
      }
      RETURN_IF_ERROR(Expect(TemplateTokenKind::kBlockEnd));
      if (has_else) {
        ASSIGN_OR_RETURN(branch.body, ParseBlock({"endif"}));
      } else {
        ASSIGN_OR_RETURN(branch.body, ParseBlock({"elif", "else", "endif"}));
      }
      statement.branches.push_back(std::move(branch));
      RETURN_IF_ERROR(Expect(TemplateTokenKind::kBlockBegin));
      has_else = TakeName("else");
    } while (has_else || TakeName("elif"));
    --at_;  // back to the tag's beginning
    RETURN_IF_ERROR(ExpectTag("endif"));
    return statement;
  }

  absl::StatusOr<Statement> ParseFor(Statement statement) {
    statement.kind = StatementKind::kFor;
    do {
      ASSIGN_OR_RETURN(std::string target, ExpectName());
      statement.targets.push_back(std::move(target));
    } while (TakeOperator(","));
    if (!TakeName("in")) return Unexpected();
    ASSIGN_OR_RETURN(statement.expr, ParseOr());  // an inline if here is the loop's filter
    if (TakeName("if")) {
      ASSIGN_OR_RETURN(statement.filter, ParseExpr());
    }
    RETURN_IF_ERROR(Expect(TemplateTokenKind::kBlockEnd));
    Branch body;
    ASSIGN_OR_RETURN(body.body, ParseBlock({"else", "endfor"}));
    statement.branches.push_back(std::move(body));
    if (IsName("else", 1)) {
      RETURN_IF_ERROR(ExpectTag("else"));
      Branch otherwise;
      ASSIGN_OR_RETURN(otherwise.body, ParseBlock({"endfor"}));
      statement.branches.push_back(std::move(otherwise));
    }
    RETURN_IF_ERROR(ExpectTag("endfor"));
    return statement;
  }

  absl::StatusOr<Statement> ParseSet(Statement statement) {
    statement.kind = StatementKind::kSet;
    ASSIGN_OR_RETURN(std::string target, ExpectName());
    statement.targets.push_back(std::move(target));
    if (TakeOperator(".")) {
      ASSIGN_OR_RETURN(std::string attribute, ExpectName());
      statement.targets.push_back(std::move(attribute));
    }
    RETURN_IF_ERROR(ExpectOperator("="));
    ASSIGN_OR_RETURN(statement.expr, ParseExpr());
    RETURN_IF_ERROR(Expect(TemplateTokenKind::kBlockEnd));
    return statement;
  }

  // --- expressions ---

  ExprPtr NewExpr(ExprKind kind) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = Peek().line;
    return expr;
  }

  ExprPtr Literal(Value value) const {
    ExprPtr expr = NewExpr(ExprKind::kLiteral);
    expr->literal = std::move(value);
    return expr;
  }

  // Adds a child, null for one that is left out, and refuses trees that grew too deep: a long chain
  // such as a + b + c + ... is a deep tree without deep recursion here.
  absl::Status AddOperand(Expr& expr, ExprPtr operand) const {
    if (operand != nullptr) expr.depth = std::max(expr.depth, operand->depth + 1);
    expr.operands.push_back(std::move(operand));
    return expr.depth > kMaxTemplateDepth ? Error("an expression is nested too deep")
                                          : absl::OkStatus();
  }

  absl::StatusOr<ExprPtr> Combine(ExprKind kind, std::string name, ExprPtr left,
                                  ExprPtr right) const {
    ExprPtr expr = NewExpr(kind);
    expr->name = std::move(name);
    RETURN_IF_ERROR(AddOperand(*expr, std::move(left)));
    RETURN_IF_ERROR(AddOperand(*expr, std::move(right)));
    return expr;
  }

  absl::StatusOr<ExprPtr> ParseExpr() {
    const Level level(&expr_depth_);
    if (expr_depth_ > kMaxTemplateDepth) return Error("an expression is nested too deep");
    ASSIGN_OR_RETURN(ExprPtr value, ParseOr());
    while (TakeName("if")) {
      ExprPtr conditional = NewExpr(ExprKind::kConditional);
      ASSIGN_OR_RETURN(ExprPtr condition, ParseOr());
      ExprPtr otherwise;
      if (TakeName("else")) {
        ASSIGN_OR_RETURN(otherwise, ParseExpr());
      }
      RETURN_IF_ERROR(AddOperand(*conditional, std::move(condition)));
      RETURN_IF_ERROR(AddOperand(*conditional, std::move(value)));
      RETURN_IF_ERROR(AddOperand(*conditional, std::move(otherwise)));
      value = std::move(conditional);
    }
    return value;
  }

  absl::StatusOr<ExprPtr> ParseOr() {
    ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
    while (TakeName("or")) {
      ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
      ASSIGN_OR_RETURN(left, Combine(ExprKind::kOr, "", std::move(left), std::move(right)));
    }
    return left;
  }

  absl::StatusOr<ExprPtr> ParseAnd() {
    ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
    while (TakeName("and")) {
      ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
      ASSIGN_OR_RETURN(left, Combine(ExprKind::kAnd, "", std::move(left), std::move(right)));
    }
    return left;
  }

  absl::StatusOr<ExprPtr> ParseNot() {
    const Level level(&expr_depth_);
    if (expr_depth_ > kMaxTemplateDepth) return Error("an expression is nested too deep");
    if (!TakeName("not")) return ParseComparison();
    ExprPtr negation = NewExpr(ExprKind::kNot);
    ASSIGN_OR_RETURN(ExprPtr operand, ParseNot());
    RETURN_IF_ERROR(AddOperand(*negation, std::move(operand)));
    return negation;
  }

  // The comparison operator here, consumed; empty if there is none.
  std::string TakeComparison() {
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (TakeOperator(op)) return std::string(op);
    }
    if (TakeName("in")) return "in";
    if (IsName("not") && IsName("in", 1)) {
      at_ += 2;
      return "not in";
    }
    return "";
  }

  absl::StatusOr<ExprPtr> ParseComparison() {
    ASSIGN_OR_RETURN(ExprPtr left, ParseSum());
    std::string op = TakeComparison();
    if (op.empty()) return left;
    ASSIGN_OR_RETURN(ExprPtr right, ParseSum());
    if (!TakeComparison().empty()) return Error("chained comparisons are not supported");
    return Combine(ExprKind::kBinary, std::move(op), std::move(left), std::move(right));
  }

  using Rule = absl::StatusOr<ExprPtr> (Parser::*)();

  // operand (op operand)*, from the left.
  absl::StatusOr<ExprPtr> ParseChain(Rule operand, std::initializer_list<std::string_view> ops) {
    ASSIGN_OR_RETURN(ExprPtr left, (this->*operand)());
    while (true) {
      const auto op = std::find_if(ops.begin(), ops.end(), [&](auto o) { return IsOperator(o); });
      if (op == ops.end()) return left;
      ++at_;
      ASSIGN_OR_RETURN(ExprPtr right, (this->*operand)());
      ASSIGN_OR_RETURN(
          left, Combine(ExprKind::kBinary, std::string(*op), std::move(left), std::move(right)));
    }
  }

  absl::StatusOr<ExprPtr> ParseSum() { return ParseChain(&Parser::ParseConcat, {"+", "-"}); }
  absl::StatusOr<ExprPtr> ParseConcat() { return ParseChain(&Parser::ParseProduct, {"~"}); }
  absl::StatusOr<ExprPtr> ParseProduct() {
    return ParseChain(&Parser::ParseUnary, {"*", "/", "//", "%"});
  }

  absl::StatusOr<ExprPtr> ParseUnary() {
    const Level level(&expr_depth_);
    if (expr_depth_ > kMaxTemplateDepth) return Error("an expression is nested too deep");
    if (!TakeOperator("-")) return ParsePostfix();
    ExprPtr negation = NewExpr(ExprKind::kNegate);
    ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary());
    RETURN_IF_ERROR(AddOperand(*negation, std::move(operand)));
    return negation;
  }

  absl::StatusOr<ExprPtr> ParsePostfix() {
    ASSIGN_OR_RETURN(ExprPtr value, ParsePrimary());
    while (true) {
      if (TakeOperator(".")) {
        ExprPtr attribute = NewExpr(ExprKind::kAttribute);
        ASSIGN_OR_RETURN(attribute->name, ExpectName());
        RETURN_IF_ERROR(AddOperand(*attribute, std::move(value)));
        value = std::move(attribute);
      } else if (TakeOperator("[")) {
        ASSIGN_OR_RETURN(value, ParseSubscript(std::move(value)));
      } else if (TakeOperator("(")) {
        ExprPtr call = NewExpr(ExprKind::kCall);
        RETURN_IF_ERROR(AddOperand(*call, std::move(value)));
        RETURN_IF_ERROR(ParseArguments(*call));
        value = std::move(call);
      } else if (TakeOperator("|")) {
        ASSIGN_OR_RETURN(value, ParseFilter(std::move(value)));
      } else if (TakeName("is")) {
        ASSIGN_OR_RETURN(value, ParseTest(std::move(value)));
      } else {
        return value;
      }
    }
  }

  // After "[".
  absl::StatusOr<ExprPtr> ParseSubscript(ExprPtr object) {
    ExprPtr begin;
    if (!IsOperator(":")) {
      ASSIGN_OR_RETURN(begin, ParseExpr());
    }
    if (TakeOperator("]")) {
      return Combine(ExprKind::kIndex, "", std::move(object), std::move(begin));
    }
    RETURN_IF_ERROR(ExpectOperator(":"));
    ExprPtr end;
    if (!IsOperator("]") && !IsOperator(":")) {
      ASSIGN_OR_RETURN(end, ParseExpr());
    }
    if (IsOperator(":")) return Error("slices with a step are not supported");
    RETURN_IF_ERROR(ExpectOperator("]"));
    ASSIGN_OR_RETURN(ExprPtr slice,
                     Combine(ExprKind::kSlice, "", std::move(object), std::move(begin)));
    RETURN_IF_ERROR(AddOperand(*slice, std::move(end)));
    return slice;
  }

  // After "(": arguments, then keyword arguments, up to and including ")".
  absl::Status ParseArguments(Expr& call) {
    while (!TakeOperator(")")) {
      const bool is_named = Peek().kind == TemplateTokenKind::kName &&
                            Peek(1).kind == TemplateTokenKind::kOperator && Peek(1).text == "=";
      if (is_named) {
        std::string name = Peek().text;
        at_ += 2;
        ASSIGN_OR_RETURN(ExprPtr value, ParseExpr());
        call.depth = std::max(call.depth, value->depth + 1);
        call.named.emplace_back(std::move(name), std::move(value));
        if (call.depth > kMaxTemplateDepth) return Error("an expression is nested too deep");
      } else {
        if (!call.named.empty()) return Error("a positional argument follows a named one");
        ASSIGN_OR_RETURN(ExprPtr value, ParseExpr());
        RETURN_IF_ERROR(AddOperand(call, std::move(value)));
      }
      if (!IsOperator(")")) RETURN_IF_ERROR(ExpectOperator(","));
    }
    return absl::OkStatus();
  }

  // After "|".
  absl::StatusOr<ExprPtr> ParseFilter(ExprPtr input) {
    ExprPtr filter = NewExpr(ExprKind::kFilter);
    ASSIGN_OR_RETURN(filter->name, ExpectName());
    RETURN_IF_ERROR(AddOperand(*filter, std::move(input)));
    if (TakeOperator("(")) RETURN_IF_ERROR(ParseArguments(*filter));
    return filter;
  }

  // After "is".
  absl::StatusOr<ExprPtr> ParseTest(ExprPtr input) {
    const bool negated = TakeName("not");
    ExprPtr test = NewExpr(ExprKind::kTest);
    ASSIGN_OR_RETURN(test->name, ExpectName());
    RETURN_IF_ERROR(AddOperand(*test, std::move(input)));
    if (TakeOperator("(")) RETURN_IF_ERROR(ParseArguments(*test));
    if (!negated) return test;
    ExprPtr negation = NewExpr(ExprKind::kNot);
    RETURN_IF_ERROR(AddOperand(*negation, std::move(test)));
    return negation;
  }

  absl::StatusOr<ExprPtr> ParsePrimary() {
    const TemplateToken token = Peek();
    switch (token.kind) {
      case TemplateTokenKind::kString:
        return ParseStrings();
      case TemplateTokenKind::kInteger: {
        int64_t value;
        if (!absl::SimpleAtoi(token.text, &value)) return Error("a number is too big");
        ++at_;
        return Literal(Value::OfInteger(value));
      }
      case TemplateTokenKind::kName:
        return ParseName();
      case TemplateTokenKind::kOperator:
        if (TakeOperator("(")) {
          ASSIGN_OR_RETURN(ExprPtr inner, ParseExpr());
          RETURN_IF_ERROR(ExpectOperator(")"));
          return inner;
        }
        if (TakeOperator("[")) return ParseList();
        if (TakeOperator("{")) return ParseDict();
        return Unexpected();
      default:
        return Unexpected();
    }
  }

  // Neighbouring string literals are one.
  absl::StatusOr<ExprPtr> ParseStrings() {
    std::string text;
    while (Peek().kind == TemplateTokenKind::kString) text += tokens_[at_++].text;
    return Literal(Value::OfText(MarkedText(std::move(text), /*from_user=*/false)));
  }

  absl::StatusOr<ExprPtr> ParseName() {
    if (TakeName("true") || TakeName("True")) return Literal(Value::OfBool(true));
    if (TakeName("false") || TakeName("False")) return Literal(Value::OfBool(false));
    if (TakeName("none") || TakeName("None")) return Literal(Value::OfNone());
    ExprPtr name = NewExpr(ExprKind::kName);
    ASSIGN_OR_RETURN(name->name, ExpectName());
    return name;
  }

  // After "[".
  absl::StatusOr<ExprPtr> ParseList() {
    ExprPtr list = NewExpr(ExprKind::kList);
    while (!TakeOperator("]")) {
      ASSIGN_OR_RETURN(ExprPtr item, ParseExpr());
      RETURN_IF_ERROR(AddOperand(*list, std::move(item)));
      if (!IsOperator("]")) RETURN_IF_ERROR(ExpectOperator(","));
    }
    return list;
  }

  // After "{".
  absl::StatusOr<ExprPtr> ParseDict() {
    ExprPtr dict = NewExpr(ExprKind::kDict);
    while (!TakeOperator("}")) {
      ASSIGN_OR_RETURN(ExprPtr key, ParseExpr());
      RETURN_IF_ERROR(ExpectOperator(":"));
      ASSIGN_OR_RETURN(ExprPtr value, ParseExpr());
      RETURN_IF_ERROR(AddOperand(*dict, std::move(key)));
      RETURN_IF_ERROR(AddOperand(*dict, std::move(value)));
      if (!IsOperator("}")) RETURN_IF_ERROR(ExpectOperator(","));
    }
    return dict;
  }

  std::vector<TemplateToken> tokens_;
  size_t at_ = 0;
  int block_depth_ = 0;
  int expr_depth_ = 0;
};

}  // namespace

absl::StatusOr<Block> ParseTemplate(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<TemplateToken> tokens, LexTemplate(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace anchorage::text
