// Whoever answers samples: this process with its own caches, or an endpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/ruler/sample.h"

namespace anchorage::eval::ruler {

struct Answer {
  std::string setting;
  std::string text;           // without the cue
  int64_t answer_tokens = 0;  // generated; 0: not known
  int64_t kv_bytes = 0;       // of the prompt's cache as it would travel; 0: not known
  double ratio = 0;           // of the dense cache over those; 0: not known
};

// One caller at a time.
class Answerer {
 public:
  virtual ~Answerer() = default;

  // The ways in which it can keep the prompt's cache, by name.
  virtual std::vector<std::string> settings() const = 0;

  // Of everything beside the prompt that the answers in one of them depend on, as far as it is
  // known here: not the same for another model or other options under the same name.
  virtual uint64_t setting_fingerprint(const std::string& setting) const = 0;

  // Answers greedily, once for each of `settings`, in that order. The errors are for people.
  virtual absl::StatusOr<std::vector<Answer>> Ask(const Sample& sample,
                                                  const std::vector<std::string>& settings) = 0;
};

}  // namespace anchorage::eval::ruler
