#include "tools/flags.h"

#include <algorithm>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "common/status.h"

ABSL_FLAG(std::string, model, "", "model file (GGUF)");
ABSL_FLAG(int, threads, 0, "CPU threads; 0: one for each core");
ABSL_FLAG(uint64_t, seed, 0, "of the random numbers");
ABSL_FLAG(bool, json, false, "print one JSON object instead of text");
ABSL_FLAG(
    std::string, out, "",
    "where the results go: a folder for eval, a file for profile (default: beside the model)");
ABSL_FLAG(std::vector<std::string>, lengths, {},
          "lengths of the prompts in tokens; default: 1024,4096 for ruler, 4096 for fidelity");
ABSL_FLAG(std::vector<std::string>, methods, {},
          "what is compared with the full cache, ablations such as rank-random too; the others are "
          "compared with the first; default: compact for ruler, compact,paper,snapkv,recent for "
          "fidelity");
ABSL_FLAG(std::vector<std::string>, ratios, (std::vector<std::string>{"5", "10", "20"}),
          "how many times smaller the caches are that are compared with the full one");

namespace anchorage::tools {

absl::StatusOr<int> ThreadsFromFlags() {
  const int threads = absl::GetFlag(FLAGS_threads);
  if (threads < 0 || threads > 1024) return Invalid("--threads: %d is not in 0..1024", threads);
  if (threads > 0) return threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

absl::StatusOr<std::vector<int64_t>> LengthsFromFlags(const std::vector<int64_t>& otherwise) {
  std::vector<int64_t> lengths;
  for (const std::string& text : absl::GetFlag(FLAGS_lengths)) {
    int64_t length = 0;
    if (!absl::SimpleAtoi(text, &length) || length < 1) {
      return Invalid("--lengths: '%s' is not a number of tokens", text);
    }
    lengths.push_back(length);
  }
  return lengths.empty() ? otherwise : lengths;
}

std::vector<std::string> MethodsFromFlags(const std::vector<std::string>& otherwise) {
  const std::vector<std::string> methods = absl::GetFlag(FLAGS_methods);
  return methods.empty() ? otherwise : methods;
}

absl::StatusOr<std::vector<double>> RatiosFromFlags() {
  std::vector<double> ratios;
  for (const std::string& text : absl::GetFlag(FLAGS_ratios)) {
    double ratio = 0;
    if (!absl::SimpleAtod(text, &ratio)) return Invalid("--ratios: '%s' is not a number", text);
    ratios.push_back(ratio);
  }
  return ratios;
}

}  // namespace anchorage::tools
