#include "router/field_reader.h"

#include <cmath>
#include <limits>

namespace anchorage::router {

std::optional<int64_t> AsInt(const ParsedJson& value) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    // Beyond 2^53 a double no longer says which integer was meant.
    if (std::trunc(number) == number && std::abs(number) <= 0x1p53) {
      return static_cast<int64_t>(number);
    }
  }
  return std::nullopt;
}

const ParsedJson* FieldReader::Find(const char* name) const {
  if (error_) return nullptr;
  const auto found = object_.find(name);
  if (found == object_.end() || found->is_null()) return nullptr;
  return &*found;
}

std::optional<bool> FieldReader::Bool(const char* name) {
  const ParsedJson* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Fail(name, absl::StrFormat("'%s' must be true or false.", name));
  return std::nullopt;
}

std::optional<int64_t> FieldReader::Int(const char* name, int64_t least, int64_t most) {
  const ParsedJson* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = AsInt(*value);
  if (number && *number >= least && *number <= most) return number;
  Fail(name, absl::StrFormat("'%s' must be an integer from %d to %d.", name, least, most));
  return std::nullopt;
}

std::optional<double> FieldReader::Number(const char* name, double least, double most) {
  const ParsedJson* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (number >= least && number <= most) return number;
  }
  Fail(name, absl::StrFormat("'%s' must be a number from %g to %g.", name, least, most));
  return std::nullopt;
}

std::optional<std::string> FieldReader::String(const char* name) {
  const ParsedJson* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Fail(name, absl::StrFormat("'%s' must be a string.", name));
  return std::nullopt;
}

void FieldReader::Fail(std::string param, std::string message) {
  if (!error_) error_ = BadRequest(std::move(param), std::move(message));
}

}  // namespace anchorage::router
