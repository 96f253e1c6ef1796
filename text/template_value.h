// Values of the chat template interpreter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/text_segment.h"

namespace anchorage::text {

// A string that knows, byte by byte, who wrote it, through every operation of a template.
class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string text, bool from_user)
      : text_(std::move(text)), from_user_(text_.size(), from_user ? '\1' : '\0') {}

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }

  void Append(const MarkedText& other) {
    text_ += other.text_;
    from_user_ += other.from_user_;
  }
  // The bytes [begin, end).
  MarkedText Slice(size_t begin, size_t end) const;

  // Maximal runs of one writer; none when empty.
  std::vector<TextSegment> Segments() const;

 private:
  std::string text_;
  std::string from_user_;  // one byte, 0 or 1, for each of text_
};

// Containers nested deeper are refused: freeing and comparing them recurses.
inline constexpr int kMaxContainerDepth = 16;

class Value;
using ValueList = std::vector<Value>;
using ValueDict = std::vector<std::pair<std::string, Value>>;  // in order of insertion
using ValueNamespace = std::map<std::string, Value>;

// Cheap to copy: text and containers are shared, and all but namespaces never change. A namespace
// is held by variables only, never inside another value, so values cannot form cycles.
class Value {
 public:
  struct Undefined {};
  struct None {};

  Value() : data_(Undefined{}) {}
  static Value OfNone() { return Value(None{}); }
  static Value OfBool(bool value) { return Value(value); }
  static Value OfInteger(int64_t value) { return Value(value); }
  static Value OfText(MarkedText text);
  static Value OfList(ValueList list);
  static Value OfDict(ValueDict dict);
  static Value OfNamespace(ValueNamespace names) {
    return Value(std::make_shared<ValueNamespace>(std::move(names)));
  }

  bool IsUndefined() const { return std::holds_alternative<Undefined>(data_); }
  bool IsNone() const { return std::holds_alternative<None>(data_); }
  const bool* AsBool() const { return std::get_if<bool>(&data_); }
  const int64_t* AsInteger() const { return std::get_if<int64_t>(&data_); }
  const MarkedText* AsText() const { return Shared<const MarkedText>(); }
  const ValueList* AsList() const { return Shared<const ValueList>(); }
  const ValueDict* AsDict() const { return Shared<const ValueDict>(); }
  ValueNamespace* AsNamespace() const { return Shared<ValueNamespace>(); }

  // Levels of containers in this one: 0 for what is not a container.
  int depth() const { return depth_; }

  // Upper bound of the work to walk through all of it, shared parts counted each time: 1, and one
  // for each kBytesPerWeight of text. Saturates.
  uint64_t weight() const { return weight_; }
  static constexpr size_t kBytesPerWeight = 256;

  // "a string", for messages.
  std::string_view TypeName() const;

  bool IsTruthy() const;
  bool Equals(const Value& other) const;

  // The entry of a dict or namespace; nothing if there is none or this is neither.
  std::optional<Value> Find(std::string_view key) const;

 private:
  using Data = std::variant<Undefined, None, bool, int64_t, std::shared_ptr<const MarkedText>,
                            std::shared_ptr<const ValueList>, std::shared_ptr<const ValueDict>,
                            std::shared_ptr<ValueNamespace>>;
  explicit Value(Data data, int depth = 0, uint64_t weight = 1)
      : data_(std::move(data)), depth_(depth), weight_(weight) {}

  template <typename T>
  T* Shared() const {
    const auto* const pointer = std::get_if<std::shared_ptr<T>>(&data_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  Data data_;
  int depth_ = 0;
  uint64_t weight_ = 1;
};

}  // namespace anchorage::text
