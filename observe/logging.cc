#include "observe/logging.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <memory>

#include "absl/flags/flag.h"
#include "common/mutex.h"
#include "common/status.h"
#include "common/status_macros.h"

ABSL_FLAG(std::string, log_level, "info",
          "least level of the lines that are logged: debug, info, warning, error or off");

namespace anchorage::observe {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warning", "error",
                                                         "off"};

std::atomic<LogLevel> least_level{LogLevel::kInfo};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

std::shared_ptr<spdlog::logger> MakeLogger(std::string_view role) {
  auto logger = std::make_shared<spdlog::logger>(std::string(role),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(spdlog::level::trace);  // LogEnabled has already decided
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %n %v", spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::debug);
  return logger;
}

// The process's one logger, or what a test put in its place.
struct Output {
  Mutex mutex;
  std::shared_ptr<spdlog::logger> logger GUARDED_BY(mutex) = MakeLogger("anchorage");
  std::function<void(std::string_view)> sink GUARDED_BY(mutex);
};

Output& TheOutput() {
  static Output* output = new Output;  // never destroyed: threads may log until the very end
  return *output;
}

void AppendEscaped(std::string_view text, std::string& line) {
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      line += absl::StrFormat("\\x%02x", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
}

}  // namespace

absl::StatusOr<LogLevel> ParseLogLevel(std::string_view name) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  return Invalid("--log-level=%s is none of debug, info, warning, error, off", name);
}

std::string_view LogLevelName(LogLevel level) { return kLevelNames[static_cast<size_t>(level)]; }

absl::Status StartLogging(std::string_view role) {
  ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(absl::GetFlag(FLAGS_log_level)));
  StartLogging(role, level);
  return absl::OkStatus();
}

void StartLogging(std::string_view role, LogLevel level) {
  least_level = level;
  Output& output = TheOutput();
  MutexLock lock(output.mutex);
  output.logger = MakeLogger(role);
}

bool LogEnabled(LogLevel level) { return level >= least_level.load(std::memory_order_relaxed); }

void Log(LogLevel level, std::string_view request_id, std::string_view message) {
  if (!LogEnabled(level)) return;
  std::string line;
  if (!request_id.empty()) {
    line += '[';
    AppendEscaped(request_id, line);
    line += "] ";
  }
  AppendEscaped(message, line);
  Output& output = TheOutput();
  MutexLock lock(output.mutex);
  if (output.sink) {
    output.sink(absl::StrFormat("%s %s", LogLevelName(level), line));
  } else {
    output.logger->log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  }
}

void SetLogSink(std::function<void(std::string_view line)> sink) {
  Output& output = TheOutput();
  MutexLock lock(output.mutex);
  output.sink = std::move(sink);
}

}  // namespace anchorage::observe
