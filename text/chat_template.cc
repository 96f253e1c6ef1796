#include "text/chat_template.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "text/template_ast.h"
#include "text/template_functions.h"
#include "text/template_parser.h"

namespace anchorage::text {
namespace {

// Work on strings and lists costs steps too, so that the step limit bounds time.
constexpr size_t kBytesPerStep = 256;
constexpr size_t kItemsPerStep = 16;
constexpr size_t kMaxItems = 1'000'000;

Value TextValue(std::string text, bool from_user) {
  return Value::OfText(MarkedText(std::move(text), from_user));
}

// One rendering: variables, output and what is left of the limits.
class Renderer {
 public:
  explicit Renderer(const ChatTemplateOptions& options)
      : options_(options), limits_{options.max_output_bytes, kMaxItems} {
    scopes_.emplace_back();
  }

  void Define(const std::string& name, Value value) {
    scopes_.back().insert_or_assign(name, std::move(value));
  }

  absl::Status RenderBlock(const Block& block) {
    for (const Statement& statement : block) RETURN_IF_ERROR(RenderStatement(statement));
    return absl::OkStatus();
  }

  const MarkedText& output() const { return output_; }

 private:
  using Scope = std::map<std::string, Value>;

  static absl::Status Error(int line, std::string_view message) {
    return Invalid("chat template, line %d: %s", line, message);
  }
  static absl::Status Located(int line, const absl::Status& status) {
    return Error(line, {status.message().data(), status.message().size()});
  }
  static absl::StatusOr<Value> Located(int line, absl::StatusOr<Value> value) {
    if (!value.ok()) return Located(line, value.status());
    return value;
  }

  absl::Status Charge(int line, size_t steps) {
    steps_ += steps;
    if (steps_ <= options_.max_steps) return absl::OkStatus();
    return Error(line, absl::StrFormat("rendering takes more than %d steps", options_.max_steps));
  }

  // For copying `value` or reading it once; the items of a container are shared.
  absl::Status ChargeFor(int line, const Value& value) {
    size_t steps = 0;
    if (const MarkedText* const text = value.AsText()) steps = text->size() / kBytesPerStep;
    if (const ValueList* const list = value.AsList()) steps = list->size() / kItemsPerStep;
    if (const ValueDict* const dict = value.AsDict()) steps = dict->size() / kItemsPerStep;
    return Charge(line, steps);
  }

  // --- statements ---

  absl::Status RenderStatement(const Statement& statement) {
    RETURN_IF_ERROR(Charge(statement.line, 1));
    switch (statement.kind) {
      case StatementKind::kText:
      case StatementKind::kOutput:
        return RenderOutput(statement);
      case StatementKind::kIf:
        return RenderIf(statement);
      case StatementKind::kFor:
        return RenderFor(statement);
      case StatementKind::kSet:
        return RenderSet(statement);
    }
    return absl::OkStatus();
  }

  absl::Status RenderOutput(const Statement& statement) {
    ASSIGN_OR_RETURN(const Value value, Eval(*statement.expr));
    const absl::StatusOr<MarkedText> text = ToText(value);
    if (!text.ok()) return Located(statement.line, text.status());
    output_.Append(*text);
    if (output_.size() > options_.max_output_bytes) {
      return Error(statement.line,
                   absl::StrFormat("the prompt grows beyond %d bytes", options_.max_output_bytes));
    }
    return absl::OkStatus();
  }

  absl::Status RenderIf(const Statement& statement) {
    for (const Branch& branch : statement.branches) {
      bool taken = true;
      if (branch.condition != nullptr) {
        ASSIGN_OR_RETURN(const Value condition, Eval(*branch.condition));
        taken = condition.IsTruthy();
      }
      if (taken) return RenderBlock(branch.body);
    }
    return absl::OkStatus();
  }

  absl::Status RenderFor(const Statement& statement) {
    ASSIGN_OR_RETURN(const ValueList items, LoopItems(statement));
    if (items.empty() && statement.branches.size() > 1) {
      return RenderBlock(statement.branches[1].body);
    }
    for (size_t i = 0; i < items.size(); ++i) {
      scopes_.emplace_back();
      RETURN_IF_ERROR(Charge(statement.line, 1));
      RETURN_IF_ERROR(BindTargets(statement, items[i]));
      Define("loop", LoopVariable(items, i));
      RETURN_IF_ERROR(RenderBlock(statement.branches[0].body));
      scopes_.pop_back();
    }
    return absl::OkStatus();
  }

  // What a loop goes over: the items, or a dict's keys, that its filter lets pass.
  absl::StatusOr<ValueList> LoopItems(const Statement& statement) {
    ASSIGN_OR_RETURN(const Value iterated, Eval(*statement.expr));
    RETURN_IF_ERROR(ChargeFor(statement.line, iterated));
    ValueList items;
    if (const ValueList* const list = iterated.AsList()) {
      items = *list;
    } else if (const ValueDict* const dict = iterated.AsDict()) {
      for (const auto& entry : *dict) items.push_back(TextValue(entry.first, false));
    } else if (!iterated.IsUndefined()) {
      return Error(statement.line, absl::StrFormat("cannot loop over %s", iterated.TypeName()));
    }
    if (statement.filter == nullptr) return items;
    ValueList passed;
    for (const Value& item : items) {
      scopes_.emplace_back();
      RETURN_IF_ERROR(BindTargets(statement, item));
      ASSIGN_OR_RETURN(const Value passes, Eval(*statement.filter));
      scopes_.pop_back();
      if (passes.IsTruthy()) passed.push_back(item);
    }
    return passed;
  }

  absl::Status BindTargets(const Statement& statement, const Value& item) {
    if (statement.targets.size() == 1) {
      Define(statement.targets[0], item);
      return absl::OkStatus();
    }
    const ValueList* const parts = item.AsList();
    if (parts == nullptr || parts->size() != statement.targets.size()) {
      return Error(statement.line, absl::StrFormat("an item of the loop does not have %d parts",
                                                   statement.targets.size()));
    }
    for (size_t i = 0; i < parts->size(); ++i) Define(statement.targets[i], (*parts)[i]);
    return absl::OkStatus();
  }

  static Value LoopVariable(const ValueList& items, size_t i) {
    const int64_t index = static_cast<int64_t>(i);
    const int64_t size = static_cast<int64_t>(items.size());
    ValueDict loop = {{"index", Value::OfInteger(index + 1)},
                      {"index0", Value::OfInteger(index)},
                      {"revindex", Value::OfInteger(size - index)},
                      {"revindex0", Value::OfInteger(size - index - 1)},
                      {"first", Value::OfBool(index == 0)},
                      {"last", Value::OfBool(index + 1 == size)},
                      {"length", Value::OfInteger(size)}};
    if (i > 0) loop.emplace_back("previtem", items[i - 1]);
    if (i + 1 < items.size()) loop.emplace_back("nextitem", items[i + 1]);
    return Value::OfDict(std::move(loop));
  }

  absl::Status RenderSet(const Statement& statement) {
    ASSIGN_OR_RETURN(Value value, Eval(*statement.expr));
    if (statement.targets.size() == 1) {
      Define(statement.targets[0], std::move(value));
      return absl::OkStatus();
    }
    ValueNamespace* const names = Lookup(statement.targets[0]).AsNamespace();
    if (names == nullptr) {
      return Error(statement.line,
                   absl::StrFormat("'%s' is not a namespace", statement.targets[0]));
    }
    RETURN_IF_ERROR(CheckContainable(statement.line, value));
    names->insert_or_assign(statement.targets[1], std::move(value));
    return absl::OkStatus();
  }

  // --- expressions ---

  Value Lookup(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) return found->second;
    }
    return Value();
  }

  // A namespace inside another value could hold itself and never be freed; a deep value would make
  // freeing it recurse without bound.
  static absl::Status CheckContainable(int line, const Value& value) {
    if (value.AsNamespace() != nullptr)
      return Error(line, "a namespace cannot be put into a value");
    if (value.depth() >= kMaxContainerDepth) return Error(line, "values are nested too deep");
    return absl::OkStatus();
  }

  absl::StatusOr<Value> Eval(const Expr& expr) {
    RETURN_IF_ERROR(Charge(expr.line, 1));
    ASSIGN_OR_RETURN(Value value, EvalKind(expr));
    if (MakesNewValue(expr.kind)) RETURN_IF_ERROR(ChargeFor(expr.line, value));
    return value;
  }

  // The others share what is there already.
  static bool MakesNewValue(ExprKind kind) {
    switch (kind) {
      case ExprKind::kList:
      case ExprKind::kDict:
      case ExprKind::kSlice:
      case ExprKind::kCall:
      case ExprKind::kFilter:
      case ExprKind::kBinary:
        return true;
      default:
        return false;
    }
  }

  absl::StatusOr<Value> EvalKind(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::kLiteral:
        return expr.literal;
      case ExprKind::kName:
        return Lookup(expr.name);
      case ExprKind::kList:
        return EvalList(expr);
      case ExprKind::kDict:
        return EvalDict(expr);
      case ExprKind::kAttribute:
        return EvalAttribute(expr);
      case ExprKind::kIndex:
        return EvalIndex(expr);
      case ExprKind::kSlice:
        return EvalSlice(expr);
      case ExprKind::kCall:
        return EvalCall(expr);
      case ExprKind::kFilter:
        return EvalFilter(expr);
      case ExprKind::kTest:
        return EvalTest(expr);
      case ExprKind::kNot:
        return EvalNot(expr);
      case ExprKind::kNegate:
        return EvalNegate(expr);
      case ExprKind::kBinary:
        return EvalBinary(expr);
      case ExprKind::kAnd:
      case ExprKind::kOr:
        return EvalLogic(expr);
      case ExprKind::kConditional:
        return EvalConditional(expr);
    }
    return Value();
  }

  // The operands from `from` on.
  absl::StatusOr<ValueList> EvalOperands(const Expr& expr, size_t from) {
    ValueList values;
    for (size_t i = from; i < expr.operands.size(); ++i) {
      ASSIGN_OR_RETURN(Value value, Eval(*expr.operands[i]));
      RETURN_IF_ERROR(ChargeFor(expr.line, value));
      values.push_back(std::move(value));
    }
    return values;
  }

  absl::StatusOr<Value> EvalList(const Expr& expr) {
    ASSIGN_OR_RETURN(ValueList items, EvalOperands(expr, 0));
    for (const Value& item : items) RETURN_IF_ERROR(CheckContainable(expr.line, item));
    return Value::OfList(std::move(items));
  }

  absl::StatusOr<Value> EvalDict(const Expr& expr) {
    ASSIGN_OR_RETURN(const ValueList parts, EvalOperands(expr, 0));
    ValueDict dict;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      if (parts[i].AsText() == nullptr) return Error(expr.line, "a dict's key must be a string");
      RETURN_IF_ERROR(CheckContainable(expr.line, parts[i + 1]));
      const std::string& key = parts[i].AsText()->text();
      const auto found = std::find_if(dict.begin(), dict.end(),
                                      [&](const auto& entry) { return entry.first == key; });
      if (found == dict.end()) {
        dict.emplace_back(key, parts[i + 1]);
      } else {
        found->second = parts[i + 1];  // the last one counts
      }
    }
    return Value::OfDict(std::move(dict));
  }

  absl::StatusOr<Value> EvalAttribute(const Expr& expr) {
    ASSIGN_OR_RETURN(const Value object, Eval(*expr.operands[0]));
    if (object.IsUndefined()) {
      return Error(expr.line, absl::StrFormat("an undefined value has no '%s'", expr.name));
    }
    return object.Find(expr.name).value_or(Value());
  }

  absl::StatusOr<Value> EvalIndex(const Expr& expr) {
    ASSIGN_OR_RETURN(const Value object, Eval(*expr.operands[0]));
    ASSIGN_OR_RETURN(const Value index, Eval(*expr.operands[1]));
    if (object.AsText() != nullptr) RETURN_IF_ERROR(ChargeFor(expr.line, object));
    return Located(expr.line, GetItem(object, index));
  }

  // An end of a slice; none when it is left out.
  absl::StatusOr<std::optional<int64_t>> EvalBound(const Expr& slice, size_t operand) {
    if (slice.operands[operand] == nullptr) return std::nullopt;
    ASSIGN_OR_RETURN(const Value bound, Eval(*slice.operands[operand]));
    if (bound.IsNone()) return std::nullopt;
    if (bound.AsInteger() == nullptr) {
      return Error(slice.line,
                   absl::StrFormat("a slice ends at a number, not %s", bound.TypeName()));
    }
    return *bound.AsInteger();
  }

  absl::StatusOr<Value> EvalSlice(const Expr& expr) {
    ASSIGN_OR_RETURN(const Value object, Eval(*expr.operands[0]));
    ASSIGN_OR_RETURN(const std::optional<int64_t> begin, EvalBound(expr, 1));
    ASSIGN_OR_RETURN(const std::optional<int64_t> end, EvalBound(expr, 2));
    RETURN_IF_ERROR(ChargeFor(expr.line, object));
    return Located(expr.line, GetSlice(object, begin, end));
  }

  absl::StatusOr<Value> EvalCall(const Expr& expr) {
    const Expr& callee = *expr.operands[0];
    ASSIGN_OR_RETURN(const ValueList arguments, EvalOperands(expr, 1));
    if (callee.kind == ExprKind::kName) return CallFunction(expr, callee.name, arguments);
    if (callee.kind != ExprKind::kAttribute) return Error(expr.line, "this cannot be called");
    if (!expr.named.empty()) return Error(expr.line, "methods take no named arguments");
    ASSIGN_OR_RETURN(const Value object, Eval(*callee.operands[0]));
    RETURN_IF_ERROR(ChargeFor(expr.line, object));
    return Located(expr.line, CallMethod(callee.name, object, arguments, limits_));
  }

  absl::StatusOr<Value> CallFunction(const Expr& expr, const std::string& name,
                                     const ValueList& arguments) {
    if (name == "namespace" && arguments.empty()) {
      ValueNamespace names;
      for (const auto& [key, value_expr] : expr.named) {
        ASSIGN_OR_RETURN(Value value, Eval(*value_expr));
        RETURN_IF_ERROR(CheckContainable(expr.line, value));
        names.insert_or_assign(key, std::move(value));
      }
      return Value::OfNamespace(std::move(names));
    }
    if (name == "raise_exception") {
      std::string message = "the template raised an exception";
      if (!arguments.empty() && arguments[0].AsText() != nullptr) {
        message = arguments[0].AsText()->text();
      }
      return Error(expr.line, message);
    }
    if (name == "range") return CallRange(expr, arguments);
    return Error(expr.line, absl::StrFormat("function '%s' is not supported", name));
  }

  absl::StatusOr<Value> CallRange(const Expr& expr, const ValueList& arguments) {
    const bool all_integers = std::all_of(arguments.begin(), arguments.end(),
                                          [](const Value& v) { return v.AsInteger() != nullptr; });
    if (!all_integers || arguments.empty() || arguments.size() > 2) {
      return Error(expr.line, "range needs one or two numbers");
    }
    const int64_t begin = arguments.size() == 2 ? *arguments[0].AsInteger() : 0;
    const int64_t end = *arguments.back().AsInteger();
    int64_t size;
    if (__builtin_sub_overflow(end, begin, &size) || size > static_cast<int64_t>(kMaxItems)) {
      return Error(expr.line, absl::StrFormat("a range has more than %d numbers", kMaxItems));
    }
    RETURN_IF_ERROR(Charge(expr.line, static_cast<size_t>(std::max<int64_t>(size, 0))));
    ValueList numbers;
    for (int64_t number = begin; number < end; ++number)
      numbers.push_back(Value::OfInteger(number));
    return Value::OfList(std::move(numbers));
  }

  absl::StatusOr<Value> EvalFilter(const Expr& expr) {
    if (!expr.named.empty()) return Error(expr.line, "filters take no named arguments");
    ASSIGN_OR_RETURN(const Value input, Eval(*expr.operands[0]));
    ASSIGN_OR_RETURN(const ValueList arguments, EvalOperands(expr, 1));
    RETURN_IF_ERROR(ChargeFor(expr.line, input));
    return Located(expr.line, ApplyFilter(expr.name, input, arguments, limits_));
  }

  absl::StatusOr<Value> EvalTest(const Expr& expr) {
    ASSIGN_OR_RETURN(const Value input, Eval(*expr.operands[0]));
    ASSIGN_OR_RETURN(const ValueList arguments, EvalOperands(expr, 1));
    RETURN_IF_ERROR(Charge(expr.line, arguments.empty() ? 0 : input.weight()));  // a comparison
    const absl::StatusOr<bool> holds = ApplyTest(expr.name, input, arguments);
    if (!holds.ok()) return Located(expr.line, holds.status());
    return Value::OfBool(*holds);
  }

  absl::StatusOr<Value> EvalNot(const Expr& expr) {
    ASSIGN_OR_RETURN(const Value operand, Eval(*expr.operands[0]));
    return Value::OfBool(!operand.IsTruthy());
  }

  absl::StatusOr<Value> EvalNegate(const Expr& expr) {
    ASSIGN_OR_RETURN(const Value operand, Eval(*expr.operands[0]));
    return Located(expr.line, ApplyOperator("-", Value::OfInteger(0), operand, limits_));
  }

  absl::StatusOr<Value> EvalBinary(const Expr& expr) {
    ASSIGN_OR_RETURN(const Value left, Eval(*expr.operands[0]));
    ASSIGN_OR_RETURN(const Value right, Eval(*expr.operands[1]));
    // Comparing walks through both.
    RETURN_IF_ERROR(Charge(expr.line, left.weight() + right.weight()));
    return Located(expr.line, ApplyOperator(expr.name, left, right, limits_));
  }

  // The operand that decides, as in Python.
  absl::StatusOr<Value> EvalLogic(const Expr& expr) {
    ASSIGN_OR_RETURN(Value left, Eval(*expr.operands[0]));
    if (left.IsTruthy() == (expr.kind == ExprKind::kOr)) return left;
    return Eval(*expr.operands[1]);
  }

  absl::StatusOr<Value> EvalConditional(const Expr& expr) {
    ASSIGN_OR_RETURN(const Value condition, Eval(*expr.operands[0]));
    if (condition.IsTruthy()) return Eval(*expr.operands[1]);
    if (expr.operands[2] == nullptr) return Value();
    return Eval(*expr.operands[2]);
  }

  const ChatTemplateOptions& options_;
  const ValueLimits limits_;
  std::vector<Scope> scopes_;
  MarkedText output_;
  size_t steps_ = 0;
};

Value MessagesValue(std::span<const ChatMessage> messages) {
  ValueList list;
  for (const ChatMessage& message : messages) {
    list.push_back(Value::OfDict({{"role", TextValue(message.role, /*from_user=*/true)},
                                  {"content", TextValue(message.content, /*from_user=*/true)}}));
  }
  return Value::OfList(std::move(list));
}

// The token's name in the file; empty if there is no such token.
absl::StatusOr<std::string> TokenName(const files::GgufFile& file, std::string_view id_key) {
  if (!file.HasKey(id_key)) return std::string();
  ASSIGN_OR_RETURN(const uint32_t id, file.GetU32(id_key));
  ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens,
                   file.GetStringArray("tokenizer.ggml.tokens"));
  if (id >= tokens.size())
    return Invalid("%s is %d, but there are %d tokens", id_key, id, tokens.size());
  return std::string(tokens[id]);
}

}  // namespace

struct ChatTemplate::Program {
  Block block;
  ChatTemplateOptions options;
};

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source,
                                                 ChatTemplateOptions options) {
  auto program = std::make_shared<Program>();
  ASSIGN_OR_RETURN(program->block, ParseTemplate(source));
  program->options = std::move(options);
  return ChatTemplate(std::move(program));
}

absl::StatusOr<ChatTemplate> ChatTemplate::FromGguf(const files::GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view source, file.GetString("tokenizer.chat_template"));
  ChatTemplateOptions options;
  ASSIGN_OR_RETURN(options.bos_token, TokenName(file, "tokenizer.ggml.bos_token_id"));
  ASSIGN_OR_RETURN(options.eos_token, TokenName(file, "tokenizer.ggml.eos_token_id"));
  return Parse(source, std::move(options));
}

ChatTemplate::ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

absl::StatusOr<std::vector<TextSegment>> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                                              bool add_generation_prompt) const {
  const ChatTemplateOptions& options = program_->options;
  Renderer renderer(options);
  renderer.Define("messages", MessagesValue(messages));
  renderer.Define("add_generation_prompt", Value::OfBool(add_generation_prompt));
  renderer.Define("bos_token", TextValue(options.bos_token, /*from_user=*/false));
  renderer.Define("eos_token", TextValue(options.eos_token, /*from_user=*/false));
  // Templates are written for a caller that passes these, none when there are none.
  renderer.Define("tools", Value::OfNone());
  renderer.Define("documents", Value::OfNone());
  RETURN_IF_ERROR(renderer.RenderBlock(program_->block));
  return renderer.output().Segments();
}

}  // namespace anchorage::text
