// One kind of question about a long text. Tasks are those of RULER (arXiv 2404.06654) in structure,
// with words, prose and facts made up here instead of data sets ("ruler-lite": its numbers must not
// be compared with published ones), and a grid of passkeys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/random.h"

namespace anchorage::eval::ruler {

// How an answer is compared with the references; see score.h.
enum class Metric { kAllRefs, kAnyRef, kPasskey };

inline constexpr double kNoDepth = -1;

// What a sample is written from. The same brief gives the same draft on every machine.
struct Brief {
  uint64_t seed = 0;
  std::string id;           // of the sample
  int64_t target_len = 0;   // tokens of prompt and answer; tasks take their frequencies from it
  int64_t units = 0;        // size of the haystack: sentences, lines, words or documents
  double depth = kNoDepth;  // where the needle is wanted, 0 (first) to 1; kNoDepth: anywhere

  // Random numbers for one part of the sample. What depends on `units` must not share a stream with
  // what does not, so that only the haystack changes while its size is searched for.
  Random Stream(std::string_view part) const { return Random(seed, id + "/" + std::string(part)); }
};

struct Draft {
  std::string prompt;             // the user's message
  std::string cue;                // the answer's first words, put into the assistant's mouth
  std::vector<std::string> refs;  // what the answer should contain
  double depth = kNoDepth;        // of the needle asked for, where there is one
};

struct Task {
  std::string_view name;
  Metric metric;
  int64_t max_tokens;  // of the answer
  Draft (*write)(const Brief& brief);
};

// The 13 tasks in the order of the paper's table, then the passkey.
const std::vector<Task>& AllTasks();

inline constexpr std::string_view kPasskeyTask = "passkey";

// Names, or "all"; each once. InvalidArgument: an unknown name; the message lists the known ones.
absl::StatusOr<std::vector<Task>> TasksByName(const std::vector<std::string>& names);

}  // namespace anchorage::eval::ruler
