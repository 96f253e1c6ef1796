#include "observe/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace anchorage::observe {
namespace {

// The fields of /proc/self/stat after the command's closing bracket; index 0 is field 3 of proc(5).
std::vector<std::string> ReadStatFields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const size_t bracket = line.rfind(')');
  std::vector<std::string> fields;
  if (bracket == std::string::npos) return fields;
  std::istringstream rest(line.substr(bracket + 1));
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

double ReadBootSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string key, line; file >> key; std::getline(file, line)) {
    double seconds = 0;
    if (key == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

int64_t CountOpenFds() {
  std::error_code error;
  std::filesystem::directory_iterator entries("/proc/self/fd", error);
  if (error) return 0;
  int64_t count = 0;
  for (; entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (error) break;
    ++count;
  }
  return count - 1;  // the directory itself was open
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  // Positions in proc(5) counted from field 3.
  constexpr size_t kUtime = 11, kStime = 12, kThreads = 17, kStart = 19, kVsize = 20, kRss = 21;
  ProcessUsage usage;
  const std::vector<std::string> fields = ReadStatFields();
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (fields.size() > kRss) {
    usage.cpu_seconds = (std::stod(fields[kUtime]) + std::stod(fields[kStime])) / ticks;
    usage.threads = std::stoll(fields[kThreads]);
    usage.start_seconds = ReadBootSeconds() + std::stod(fields[kStart]) / ticks;
    usage.virtual_bytes = std::stoll(fields[kVsize]);
    usage.resident_bytes = std::stoll(fields[kRss]) * sysconf(_SC_PAGESIZE);
  }
  usage.open_fds = CountOpenFds();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) usage.max_fds = static_cast<int64_t>(limit.rlim_cur);
  return usage;
}

}  // namespace anchorage::observe
