// What this process holds, from /proc.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

namespace anchorage::transport {

inline size_t EntriesIn(const char* path) {
  size_t count = 0;
  DIR* directory = opendir(path);
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}
inline size_t OpenDescriptors() { return EntriesIn("/proc/self/fd"); }
inline size_t RunningThreads() { return EntriesIn("/proc/self/task"); }

inline size_t ResidentBytes() {
  size_t total = 0;
  size_t resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%zu %zu", &total, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace anchorage::transport
