#include "tools/flags.h"

#include <algorithm>
#include <thread>

#include "absl/flags/flag.h"
#include "common/status.h"

ABSL_FLAG(std::string, model, "", "model file (GGUF)");
ABSL_FLAG(int, threads, 0, "CPU threads; 0: one for each core");
ABSL_FLAG(uint64_t, seed, 0, "of the random numbers");
ABSL_FLAG(bool, json, false, "print one JSON object instead of text");

namespace anchorage::tools {

absl::StatusOr<int> ThreadsFromFlags() {
  const int threads = absl::GetFlag(FLAGS_threads);
  if (threads < 0 || threads > 1024) return Invalid("--threads: %d is not in 0..1024", threads);
  if (threads > 0) return threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace anchorage::tools
