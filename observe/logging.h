// One line per event on standard error:
//   2026-03-01T12:00:00.000Z info router [req-1f] message
// spdlog does the writing; nothing of it stands here. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

namespace anchorage::observe {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// "debug", "info", "warning", "error", "off". InvalidArgument names what is allowed.
absl::StatusOr<LogLevel> ParseLogLevel(std::string_view name);
std::string_view LogLevelName(LogLevel level);

// Reads the flag --log-level (ANCHORAGE_LOG_LEVEL) and names the process `role` in every line.
// InvalidArgument: the flag names no level. Call once, after ParseFlags; without it lines of level
// info and above are written with the role "anchorage".
absl::Status StartLogging(std::string_view role);

// The same with the level given.
void StartLogging(std::string_view role, LogLevel level);

bool LogEnabled(LogLevel level);

// Writes one line. `request_id` may be empty: then the line belongs to no request. Control
// characters in either are written as escapes, so that no text from outside can forge a line.
void Log(LogLevel level, std::string_view request_id, std::string_view message);

// For tests: lines go to `sink`, without the time, instead of standard error; empty: back again.
void SetLogSink(std::function<void(std::string_view line)> sink);

template <typename... Args>
void LogDebug(std::string_view request_id, const absl::FormatSpec<Args...>& format,
              const Args&... args) {
  if (LogEnabled(LogLevel::kDebug)) {
    Log(LogLevel::kDebug, request_id, absl::StrFormat(format, args...));
  }
}

template <typename... Args>
void LogInfo(std::string_view request_id, const absl::FormatSpec<Args...>& format,
             const Args&... args) {
  if (LogEnabled(LogLevel::kInfo)) {
    Log(LogLevel::kInfo, request_id, absl::StrFormat(format, args...));
  }
}

template <typename... Args>
void LogWarning(std::string_view request_id, const absl::FormatSpec<Args...>& format,
                const Args&... args) {
  if (LogEnabled(LogLevel::kWarning)) {
    Log(LogLevel::kWarning, request_id, absl::StrFormat(format, args...));
  }
}

template <typename... Args>
void LogError(std::string_view request_id, const absl::FormatSpec<Args...>& format,
              const Args&... args) {
  if (LogEnabled(LogLevel::kError)) {
    Log(LogLevel::kError, request_id, absl::StrFormat(format, args...));
  }
}

}  // namespace anchorage::observe
