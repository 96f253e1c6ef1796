// Reads typed fields of a JSON object and remembers the first thing that was wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "router/api_error.h"
#include "router/json.h"

namespace anchorage::router {

// null is the same as absent. After the first error every reader answers "absent". `object` must
// outlive the reader and be a JSON object.
class FieldReader {
 public:
  explicit FieldReader(const ParsedJson& object) : object_(object) {}

  // Null when absent, null or after an error.
  const ParsedJson* Find(const char* name) const;

  std::optional<bool> Bool(const char* name);
  // A number without a fraction, also when written as 16.0.
  std::optional<int64_t> Int(const char* name, int64_t least, int64_t most);
  std::optional<double> Number(const char* name, double least, double most);
  std::optional<std::string> String(const char* name);

  void Fail(std::string param, std::string message);
  bool ok() const { return !error_; }
  const ApiError& error() const { return *error_; }

 private:
  const ParsedJson& object_;
  std::optional<ApiError> error_;
};

// A JSON number as an integer: nothing when it is no number, has a fraction or does not fit.
std::optional<int64_t> AsInt(const ParsedJson& value);

}  // namespace anchorage::router
