// What a run shows for itself: a table, JSON and plots.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "eval/ruler/summary.h"

namespace anchorage::eval::ruler {

// For people. A dash stands for what is not known.
std::string ToMarkdown(const Summary& summary);

// For programs; what is not known is null.
std::string ToJson(const Summary& summary);

// Writes into the folder
//   report.md, report.json
//   compression.svg       score against achieved ratio, a line for each length
//   tasks_LENGTH.svg      a bar for each task and setting
//   passkey_SETTING.svg   heat map over depth and length, where passkeys were asked
//   needles_SETTING.svg   likewise, of the other tasks that ask for one needle
// Unavailable: a file cannot be written.
absl::Status WriteReport(const Summary& summary, const std::string& folder);

}  // namespace anchorage::eval::ruler
