// What templates may call on values: the string methods and filters, tests and slices.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/template_value.h"

namespace anchorage::text {

// No value that a template makes may be bigger than this.
struct ValueLimits {
  size_t max_text_bytes;
  size_t max_items;  // of a list or dict
};

// `input | name(arguments)` for the filters, and `input.name(arguments)` for the methods, of
// strings, lists and dicts. InvalidArgument: unknown, wrong argument types, or beyond a limit.
absl::StatusOr<Value> ApplyFilter(std::string_view name, const Value& input,
                                  std::span<const Value> arguments, const ValueLimits& limits);
absl::StatusOr<Value> CallMethod(std::string_view name, const Value& input,
                                 std::span<const Value> arguments, const ValueLimits& limits);

// `input is name(arguments)`.
absl::StatusOr<bool> ApplyTest(std::string_view name, const Value& input,
                               std::span<const Value> arguments);

// `left op right` for every binary operator but `and` and `or`.
absl::StatusOr<Value> ApplyOperator(std::string_view op, const Value& left, const Value& right,
                                    const ValueLimits& limits);

// `object[index]`; what is not there is undefined, as in Jinja. Strings count in characters.
absl::StatusOr<Value> GetItem(const Value& object, const Value& index);

// `object[begin:end]` of a list or string, with Python's meaning of negative and missing ends.
absl::StatusOr<Value> GetSlice(const Value& object, std::optional<int64_t> begin,
                               std::optional<int64_t> end);

// The text that `value` prints as. InvalidArgument: containers do not print.
absl::StatusOr<MarkedText> ToText(const Value& value);

}  // namespace anchorage::text
