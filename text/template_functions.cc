#include "text/template_functions.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "common/status.h"
#include "common/status_macros.h"
#include "text/utf8.h"

namespace anchorage::text {
namespace {

constexpr size_t kMaxStripSet = 256;  // bytes

Value PlainText(std::string text) { return Value::OfText(MarkedText(std::move(text), false)); }

absl::Status CheckSize(const MarkedText& text, const ValueLimits& limits) {
  if (text.size() <= limits.max_text_bytes) return absl::OkStatus();
  return Invalid("a string grows beyond %d bytes", limits.max_text_bytes);
}

absl::StatusOr<const MarkedText*> WantText(const Value& value, std::string_view what) {
  if (const MarkedText* const text = value.AsText()) return text;
  return Invalid("%s needs a string, not %s", what, value.TypeName());
}

absl::StatusOr<Value> WantList(ValueList list, const ValueLimits& limits) {
  if (list.size() > limits.max_items) {
    return Invalid("a list grows beyond %d items", limits.max_items);
  }
  Value value = Value::OfList(std::move(list));
  if (value.depth() > kMaxContainerDepth) return Invalid("lists are nested too deep");
  return value;
}

// --- strings ---

// The first place of `part` in `text` from `from` on, or npos. By memmem, which is linear also when
// users write text to make a search slow; std::string::find is not.
size_t Find(std::string_view text, std::string_view part, size_t from = 0) {
  const void* const found =
      memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

enum class Side { kBoth, kLeft, kRight };

// Strips what Python's str.strip does: whitespace, or the characters of `set`.
MarkedText Strip(const MarkedText& text, Side side, const MarkedText* set) {
  const auto strips = [&](size_t at, size_t size) {
    const std::string_view character = std::string_view(text.text()).substr(at, size);
    if (set != nullptr) return set->text().find(character) != std::string::npos;
    const uint32_t value = DecodeLenient(character, 0).value;
    return IsWhiteSpace(value) || (value >= 0x1C && value <= 0x1F);
  };
  size_t begin = 0;
  size_t end = text.size();
  while (side != Side::kRight && begin < end) {
    const size_t size = DecodeLenient(text.text(), begin).size;
    if (!strips(begin, size)) break;
    begin += size;
  }
  while (side != Side::kLeft && begin < end) {
    size_t last = end - 1;
    while (last > begin && (static_cast<unsigned char>(text.text()[last]) & 0xC0) == 0x80) --last;
    if (!strips(last, end - last)) break;
    end = last;
  }
  return text.Slice(begin, end);
}

enum class Case { kLower, kUpper, kCapital, kTitle };

MarkedText ChangeCase(const MarkedText& text, Case to) {
  MarkedText changed;
  bool starts_word = true;
  for (const TextSegment& segment : text.Segments()) {
    std::string part;
    for (size_t at = 0; at < segment.text.size();) {
      const CodePoint c = DecodeLenient(segment.text, at);
      const bool upper =
          to == Case::kUpper || ((to == Case::kCapital || to == Case::kTitle) && starts_word);
      const auto code_point = static_cast<utf8proc_int32_t>(c.value);
      AppendUtf8(static_cast<uint32_t>(upper ? utf8proc_toupper(code_point)
                                             : utf8proc_tolower(code_point)),
                 part);
      starts_word = to == Case::kTitle && IsWhiteSpace(c.value);
      at += c.size;
    }
    changed.Append(MarkedText(std::move(part), !segment.from_template));
  }
  return changed;
}

// Cuts at each `separator`, at most `max_cuts` times.
std::vector<MarkedText> Split(const MarkedText& text, std::string_view separator, size_t max_cuts) {
  std::vector<MarkedText> parts;
  size_t begin = 0;
  while (parts.size() < max_cuts) {
    const size_t found = Find(text.text(), separator, begin);
    if (found == std::string_view::npos) break;
    parts.push_back(text.Slice(begin, found));
    begin = found + separator.size();
  }
  parts.push_back(text.Slice(begin, text.size()));
  return parts;
}

// The words between runs of whitespace.
std::vector<MarkedText> SplitWords(const MarkedText& text) {
  std::vector<MarkedText> words;
  size_t begin = 0;
  for (size_t at = 0; at <= text.size();) {
    const bool at_end = at == text.size();
    const CodePoint c = at_end ? CodePoint{' ', 1} : DecodeLenient(text.text(), at);
    if (IsWhiteSpace(c.value)) {
      if (at > begin) words.push_back(text.Slice(begin, at));
      begin = at + c.size;
    }
    at += c.size;
  }
  return words;
}

absl::StatusOr<Value> SplitMethod(const MarkedText& text, std::span<const Value> arguments,
                                  const ValueLimits& limits) {
  std::vector<MarkedText> parts;
  if (arguments.empty() || arguments[0].IsNone()) {
    parts = SplitWords(text);
  } else {
    ASSIGN_OR_RETURN(const MarkedText* const separator, WantText(arguments[0], "split"));
    if (separator->size() == 0) return Invalid("split needs a separator that is not empty");
    size_t max_cuts = limits.max_items;
    if (arguments.size() > 1 && arguments[1].AsInteger() != nullptr) {
      const int64_t wanted = *arguments[1].AsInteger();
      if (wanted >= 0) max_cuts = std::min(max_cuts, static_cast<size_t>(wanted));
    }
    parts = Split(text, separator->text(), max_cuts);
  }
  ValueList list;
  for (MarkedText& part : parts) list.push_back(Value::OfText(std::move(part)));
  return WantList(std::move(list), limits);
}

absl::StatusOr<Value> Join(std::span<const MarkedText> parts, const MarkedText& separator,
                           const ValueLimits& limits) {
  MarkedText joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined.Append(separator);
    joined.Append(parts[i]);
    RETURN_IF_ERROR(CheckSize(joined, limits));
  }
  return Value::OfText(std::move(joined));
}

absl::StatusOr<Value> Replace(const MarkedText& text, std::span<const Value> arguments,
                              const ValueLimits& limits) {
  if (arguments.size() != 2) return Invalid("replace needs two arguments");
  ASSIGN_OR_RETURN(const MarkedText* const from, WantText(arguments[0], "replace"));
  ASSIGN_OR_RETURN(const MarkedText* const to, WantText(arguments[1], "replace"));
  if (from->size() == 0) return Invalid("replace needs something to look for");
  return Join(Split(text, from->text(), text.size()), *to, limits);
}

absl::StatusOr<bool> HasAffix(const MarkedText& text, std::span<const Value> arguments,
                              bool at_start) {
  if (arguments.size() != 1) return Invalid("startswith and endswith need one argument");
  ASSIGN_OR_RETURN(const MarkedText* const affix, WantText(arguments[0], "startswith or endswith"));
  return at_start ? text.text().starts_with(affix->text()) : text.text().ends_with(affix->text());
}

// The methods that are filters too, under `name` as a method.
absl::StatusOr<std::optional<Value>> StringFunction(std::string_view name, const MarkedText& text,
                                                    std::span<const Value> arguments,
                                                    const ValueLimits& limits) {
  if (name == "upper") return Value::OfText(ChangeCase(text, Case::kUpper));
  if (name == "lower") return Value::OfText(ChangeCase(text, Case::kLower));
  if (name == "capitalize") return Value::OfText(ChangeCase(text, Case::kCapital));
  if (name == "title") return Value::OfText(ChangeCase(text, Case::kTitle));
  if (name == "replace") return Replace(text, arguments, limits);
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const MarkedText* set = nullptr;
    if (!arguments.empty()) {
      ASSIGN_OR_RETURN(set, WantText(arguments[0], name));
      if (set->size() > kMaxStripSet) return Invalid("too many characters to strip");
    }
    const Side side = name == "strip" ? Side::kBoth : name == "lstrip" ? Side::kLeft : Side::kRight;
    return Value::OfText(Strip(text, side, set));
  }
  return std::optional<Value>();
}

// --- indices ---

// Byte offset of each character of `text`, and the end.
std::vector<size_t> CharacterOffsets(const MarkedText& text) {
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.size(); at += DecodeLenient(text.text(), at).size) {
    offsets.push_back(at);
  }
  offsets.push_back(text.size());
  return offsets;
}

int64_t ClampIndex(int64_t index, int64_t size) {
  return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
}

// --- operators ---

absl::StatusOr<Value> IntegerOperator(std::string_view op, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(left, right, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(left, right, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(left, right, &result);
  } else if (op == "%" || op == "//") {
    if (right <= 0) return Invalid("'%s' by %d is not supported", op, right);
    const int64_t remainder = (left % right + right) % right;
    result = op == "%" ? remainder : left / right - (left % right < 0 ? 1 : 0);
  } else {
    return Invalid("operator '%s' is not supported for numbers", op);
  }
  if (overflow) return Invalid("'%s' overflows", op);
  return Value::OfInteger(result);
}

absl::StatusOr<Value> Add(const Value& left, const Value& right, const ValueLimits& limits) {
  if (left.AsText() != nullptr && right.AsText() != nullptr) {
    MarkedText sum = *left.AsText();
    sum.Append(*right.AsText());
    RETURN_IF_ERROR(CheckSize(sum, limits));
    return Value::OfText(std::move(sum));
  }
  if (left.AsList() != nullptr && right.AsList() != nullptr) {
    ValueList sum = *left.AsList();
    sum.insert(sum.end(), right.AsList()->begin(), right.AsList()->end());
    return WantList(std::move(sum), limits);
  }
  return Invalid("cannot add %s and %s", left.TypeName(), right.TypeName());
}

absl::StatusOr<bool> Contains(const Value& container, const Value& item) {
  if (const MarkedText* const text = container.AsText()) {
    ASSIGN_OR_RETURN(const MarkedText* const part, WantText(item, "'in' a string"));
    return Find(text->text(), part->text()) != std::string_view::npos;
  }
  if (const ValueList* const list = container.AsList()) {
    return std::any_of(list->begin(), list->end(), [&](const Value& v) { return v.Equals(item); });
  }
  if (container.AsDict() != nullptr) {
    return item.AsText() != nullptr && container.Find(item.AsText()->text()).has_value();
  }
  return Invalid("'in' needs a string, list or dict, not %s", container.TypeName());
}

// left < right.
absl::StatusOr<bool> IsLess(const Value& left, const Value& right) {
  if (left.AsInteger() != nullptr && right.AsInteger() != nullptr) {
    return *left.AsInteger() < *right.AsInteger();
  }
  if (left.AsText() != nullptr && right.AsText() != nullptr) {
    return left.AsText()->text() < right.AsText()->text();
  }
  return Invalid("cannot compare %s and %s", left.TypeName(), right.TypeName());
}

}  // namespace

absl::StatusOr<MarkedText> ToText(const Value& value) {
  if (const MarkedText* const text = value.AsText()) return *text;
  if (value.IsUndefined()) return MarkedText();
  if (value.IsNone()) return MarkedText("None", false);
  if (const bool* const flag = value.AsBool()) return MarkedText(*flag ? "True" : "False", false);
  if (const int64_t* const number = value.AsInteger()) {
    return MarkedText(std::to_string(*number), false);
  }
  return Invalid("%s cannot be printed", value.TypeName());
}

absl::StatusOr<Value> ApplyFilter(std::string_view name, const Value& input,
                                  std::span<const Value> arguments, const ValueLimits& limits) {
  if (name == "default" || name == "d") {
    if (arguments.empty()) return PlainText("");
    const bool also_false = arguments.size() > 1 && arguments[1].IsTruthy();
    return input.IsUndefined() || (also_false && !input.IsTruthy()) ? arguments[0] : input;
  }
  if (name == "safe") return input;
  if (name == "string") {
    ASSIGN_OR_RETURN(MarkedText text, ToText(input));
    return Value::OfText(std::move(text));
  }
  if (name == "length" || name == "count") {
    if (const MarkedText* const text = input.AsText()) {
      return Value::OfInteger(static_cast<int64_t>(CharacterOffsets(*text).size()) - 1);
    }
    if (const ValueList* const list = input.AsList()) {
      return Value::OfInteger(static_cast<int64_t>(list->size()));
    }
    if (const ValueDict* const dict = input.AsDict()) {
      return Value::OfInteger(static_cast<int64_t>(dict->size()));
    }
    return Invalid("filter '%s' needs a string, list or dict, not %s", name, input.TypeName());
  }
  if (const ValueList* const list = input.AsList()) {
    if (name == "list") return input;
    if (name == "first") return list->empty() ? Value() : list->front();
    if (name == "last") return list->empty() ? Value() : list->back();
    if (name == "join") {
      std::vector<MarkedText> parts;
      for (const Value& item : *list) {
        ASSIGN_OR_RETURN(MarkedText part, ToText(item));
        parts.push_back(std::move(part));
      }
      MarkedText separator;
      if (!arguments.empty()) {
        ASSIGN_OR_RETURN(separator, ToText(arguments[0]));
      }
      return Join(parts, separator, limits);
    }
  }
  if (const MarkedText* const text = input.AsText()) {
    ASSIGN_OR_RETURN(std::optional<Value> result,
                     StringFunction(name == "trim" ? "strip" : name, *text, arguments, limits));
    if (result) return *std::move(result);
  }
  return Invalid("filter '%s' is not supported for %s", name, input.TypeName());
}

absl::StatusOr<Value> CallMethod(std::string_view name, const Value& input,
                                 std::span<const Value> arguments, const ValueLimits& limits) {
  if (const MarkedText* const text = input.AsText()) {
    if (name == "split") return SplitMethod(*text, arguments, limits);
    if (name == "startswith" || name == "endswith") {
      ASSIGN_OR_RETURN(const bool has, HasAffix(*text, arguments, name == "startswith"));
      return Value::OfBool(has);
    }
    ASSIGN_OR_RETURN(std::optional<Value> result, StringFunction(name, *text, arguments, limits));
    if (result) return *std::move(result);
  }
  if (const ValueDict* const dict = input.AsDict()) {
    if (name == "get" && !arguments.empty() && arguments[0].AsText() != nullptr) {
      const std::optional<Value> found = input.Find(arguments[0].AsText()->text());
      if (found) return *found;
      return arguments.size() > 1 ? arguments[1] : Value::OfNone();
    }
    if (name == "items" || name == "keys" || name == "values") {
      ValueList list;
      for (const auto& [key, value] : *dict) {
        if (name == "items") list.push_back(Value::OfList({PlainText(key), value}));
        if (name == "keys") list.push_back(PlainText(key));
        if (name == "values") list.push_back(value);
      }
      return WantList(std::move(list), limits);
    }
  }
  return Invalid("method '%s' is not supported for %s", name, input.TypeName());
}

absl::StatusOr<bool> ApplyTest(std::string_view name, const Value& input,
                               std::span<const Value> arguments) {
  if (name == "defined") return !input.IsUndefined();
  if (name == "undefined") return input.IsUndefined();
  if (name == "none") return input.IsNone();
  if (name == "boolean") return input.AsBool() != nullptr;
  if (name == "true") return input.AsBool() != nullptr && *input.AsBool();
  if (name == "false") return input.AsBool() != nullptr && !*input.AsBool();
  if (name == "integer" || name == "number") return input.AsInteger() != nullptr;
  if (name == "string") return input.AsText() != nullptr;
  if (name == "mapping") return input.AsDict() != nullptr;
  if (name == "iterable" || name == "sequence") {
    return input.AsText() != nullptr || input.AsList() != nullptr || input.AsDict() != nullptr;
  }
  if ((name == "eq" || name == "equalto") && arguments.size() == 1) {
    return input.Equals(arguments[0]);
  }
  if ((name == "even" || name == "odd") && input.AsInteger() != nullptr) {
    return (*input.AsInteger() % 2 == 0) == (name == "even");
  }
  return Invalid("test '%s' is not supported for %s", name, input.TypeName());
}

absl::StatusOr<Value> ApplyOperator(std::string_view op, const Value& left, const Value& right,
                                    const ValueLimits& limits) {
  if (op == "==") return Value::OfBool(left.Equals(right));
  if (op == "!=") return Value::OfBool(!left.Equals(right));
  if (op == "in" || op == "not in") {
    ASSIGN_OR_RETURN(const bool contains, Contains(right, left));
    return Value::OfBool(contains == (op == "in"));
  }
  if (op == "<" || op == ">=") {
    ASSIGN_OR_RETURN(const bool less, IsLess(left, right));
    return Value::OfBool(less == (op == "<"));
  }
  if (op == ">" || op == "<=") {
    ASSIGN_OR_RETURN(const bool greater, IsLess(right, left));
    return Value::OfBool(greater == (op == ">"));
  }
  if (op == "~") {
    ASSIGN_OR_RETURN(MarkedText joined, ToText(left));
    ASSIGN_OR_RETURN(const MarkedText tail, ToText(right));
    joined.Append(tail);
    RETURN_IF_ERROR(CheckSize(joined, limits));
    return Value::OfText(std::move(joined));
  }
  if (left.AsInteger() != nullptr && right.AsInteger() != nullptr) {
    return IntegerOperator(op, *left.AsInteger(), *right.AsInteger());
  }
  if (op == "+") return Add(left, right, limits);
  return Invalid("operator '%s' is not supported for %s and %s", op, left.TypeName(),
                 right.TypeName());
}

absl::StatusOr<Value> GetItem(const Value& object, const Value& index) {
  if (object.IsUndefined()) return Invalid("an undefined value has no items");
  if (const MarkedText* const key = index.AsText()) {
    return object.Find(key->text()).value_or(Value());
  }
  const int64_t* const position = index.AsInteger();
  if (position == nullptr) return Value();
  if (const ValueList* const list = object.AsList()) {
    const int64_t size = static_cast<int64_t>(list->size());
    const int64_t at = *position < 0 ? *position + size : *position;
    return at < 0 || at >= size ? Value() : (*list)[static_cast<size_t>(at)];
  }
  if (const MarkedText* const text = object.AsText()) {
    const std::vector<size_t> offsets = CharacterOffsets(*text);
    const int64_t size = static_cast<int64_t>(offsets.size()) - 1;
    const int64_t at = *position < 0 ? *position + size : *position;
    if (at < 0 || at >= size) return Value();
    const size_t i = static_cast<size_t>(at);
    return Value::OfText(text->Slice(offsets[i], offsets[i + 1]));
  }
  return Value();
}

absl::StatusOr<Value> GetSlice(const Value& object, std::optional<int64_t> begin,
                               std::optional<int64_t> end) {
  const auto bounds = [&](size_t size) {
    const int64_t length = static_cast<int64_t>(size);
    const int64_t from = ClampIndex(begin.value_or(0), length);
    const int64_t to = std::max(from, ClampIndex(end.value_or(length), length));
    return std::pair(static_cast<size_t>(from), static_cast<size_t>(to));
  };
  if (const ValueList* const list = object.AsList()) {
    const auto [from, to] = bounds(list->size());
    return Value::OfList(ValueList(list->begin() + static_cast<ptrdiff_t>(from),
                                   list->begin() + static_cast<ptrdiff_t>(to)));
  }
  if (const MarkedText* const text = object.AsText()) {
    const std::vector<size_t> offsets = CharacterOffsets(*text);
    const auto [from, to] = bounds(offsets.size() - 1);
    return Value::OfText(text->Slice(offsets[from], offsets[to]));
  }
  return Invalid("%s cannot be sliced", object.TypeName());
}

}  // namespace anchorage::text
