#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace anchorage {

// The whole file, byte for byte; also of a pipe.
// NotFound: no such file. InvalidArgument: it is a directory or cannot be read. Both name the path.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// The first line of the file that `flag` names, without its end; "" when `path` is empty.
// InvalidArgument, with the flag's name: the file cannot be read or the line is empty.
absl::StatusOr<std::string> ReadSecretFile(const std::string& flag, const std::string& path);

}  // namespace anchorage
