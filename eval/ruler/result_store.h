// Answers on disk, one JSON object a line, appended as they come: what a run that was stopped goes
// on from.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace anchorage::eval::ruler {

// One sample's answer in one setting. It carries all that a report needs.
struct Result {
  std::string id;  // of the sample
  std::string setting;
  uint64_t setting_fingerprint = 0;  // Answerer's; 0: not known
  std::string task;
  int64_t target_len = 0;
  double depth = -1;  // kNoDepth: no single needle
  uint64_t prompt_fingerprint = 0;
  int64_t prompt_tokens = 0;
  int64_t answer_tokens = 0;
  int64_t kv_bytes = 0;  // 0: not known
  double ratio = 0;      // 0: not known
  double score = 0;
  int64_t digit_prefix = 0;  // of a passkey
  std::string answer;
  std::vector<std::string> refs;
};

// One process at a time. Not thread-safe.
class ResultStore {
 public:
  // Reads the file if there is one. A last line without its line break, as after a crash in the
  // middle of writing, is removed. DataLoss: another line is no result; the message has its number,
  // and the file stays as it is. Unavailable: the file cannot be read or written.
  static absl::StatusOr<ResultStore> Open(const std::string& path);

  // Null when there is none.
  const Result* Find(const std::string& id, const std::string& setting) const;

  // On disk when it returns. Takes the place of an earlier result of the same sample and setting.
  absl::Status Append(Result result);

  // One for each sample and setting, in the order in which they first came.
  const std::vector<Result>& results() const { return results_; }

 private:
  explicit ResultStore(std::string path) : path_(std::move(path)) {}
  void Remember(Result result);

  std::string path_;
  std::ofstream out_;
  std::vector<Result> results_;
  std::map<std::pair<std::string, std::string>, size_t> index_;  // (id, setting) to results_
};

}  // namespace anchorage::eval::ruler
