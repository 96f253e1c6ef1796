// Long texts for measurements, taken from this repository itself, so that they are always at hand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace anchorage::eval {

// What a text is made of, files in ascending order of their paths:
//   "code"     the sources under kernels/
//   "prose"    LICENSE, docs/ARCHITECTURE.md and the comments of all headers
//   "scripts"  the Python and shell programs under scripts/ and tests/
inline constexpr const char* kTextKinds[] = {"code", "prose", "scripts"};

// `root`: the top folder of the sources. InvalidArgument: no such kind. NotFound: a file is
// missing.
absl::StatusOr<std::string> ReadOwnText(std::string_view kind, const std::string& root);

// All that there is of one sort, each file apart, in ascending order of their paths:
//   "code"   the sources and programs of every folder, tests included
//   "prose"  the documents, and of each source its comments
// As ReadOwnText; NotFound also when `root` has nothing of the sort.
absl::StatusOr<std::vector<std::string>> ReadOwnFiles(std::string_view sort,
                                                      const std::string& root);

}  // namespace anchorage::eval
