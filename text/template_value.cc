#include "text/template_value.h"

#include <algorithm>

namespace anchorage::text {
namespace {

constexpr uint64_t kMaxWeight = uint64_t{1} << 40;

}  // namespace

MarkedText MarkedText::Slice(size_t begin, size_t end) const {
  MarkedText slice;
  slice.text_ = text_.substr(begin, end - begin);
  slice.from_user_ = from_user_.substr(begin, end - begin);
  return slice;
}

std::vector<TextSegment> MarkedText::Segments() const {
  std::vector<TextSegment> segments;
  for (size_t begin = 0; begin < text_.size();) {
    const size_t found = from_user_.find(from_user_[begin] == '\0' ? '\1' : '\0', begin);
    const size_t end = std::min(found, text_.size());
    segments.push_back({text_.substr(begin, end - begin), from_user_[begin] == '\0'});
    begin = end;
  }
  return segments;
}

Value Value::OfText(MarkedText text) {
  const uint64_t weight = 1 + text.size() / kBytesPerWeight;
  return Value(std::make_shared<const MarkedText>(std::move(text)), 0, weight);
}

Value Value::OfList(ValueList list) {
  int depth = 0;
  uint64_t weight = 1;
  for (const Value& item : list) {
    depth = std::max(depth, item.depth());
    weight = std::min(weight + item.weight(), kMaxWeight);
  }
  return Value(std::make_shared<const ValueList>(std::move(list)), depth + 1, weight);
}

Value Value::OfDict(ValueDict dict) {
  int depth = 0;
  uint64_t weight = 1;
  for (const auto& [key, item] : dict) {
    depth = std::max(depth, item.depth());
    weight = std::min(weight + 1 + item.weight(), kMaxWeight);
  }
  return Value(std::make_shared<const ValueDict>(std::move(dict)), depth + 1, weight);
}

std::string_view Value::TypeName() const {
  static constexpr std::string_view kNames[] = {
      "an undefined value", "none",   "a boolean", "a number",
      "a string",           "a list", "a dict",    "a namespace"};
  return kNames[data_.index()];
}

bool Value::IsTruthy() const {
  if (const bool* const value = AsBool()) return *value;
  if (const int64_t* const value = AsInteger()) return *value != 0;
  if (const MarkedText* const text = AsText()) return text->size() > 0;
  if (const ValueList* const list = AsList()) return !list->empty();
  if (const ValueDict* const dict = AsDict()) return !dict->empty();
  return AsNamespace() != nullptr;
}

bool Value::Equals(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (const bool* const value = AsBool()) return *value == *other.AsBool();
  if (const int64_t* const value = AsInteger()) return *value == *other.AsInteger();
  if (const MarkedText* const text = AsText()) return text->text() == other.AsText()->text();
  if (const ValueList* const list = AsList()) {
    return std::equal(list->begin(), list->end(), other.AsList()->begin(), other.AsList()->end(),
                      [](const Value& a, const Value& b) { return a.Equals(b); });
  }
  if (const ValueDict* const dict = AsDict()) {
    return dict->size() == other.AsDict()->size() &&
           std::all_of(dict->begin(), dict->end(), [&](const auto& entry) {
             const std::optional<Value> found = other.Find(entry.first);
             return found && found->Equals(entry.second);
           });
  }
  if (const ValueNamespace* const names = AsNamespace()) return names == other.AsNamespace();
  return true;
}

std::optional<Value> Value::Find(std::string_view key) const {
  if (const ValueDict* const dict = AsDict()) {
    for (const auto& [name, value] : *dict) {
      if (name == key) return value;
    }
  }
  if (const ValueNamespace* const names = AsNamespace()) {
    const auto found = names->find(std::string(key));
    if (found != names->end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace anchorage::text
