// The results of a run as lines of JSON, one prompt each, written as they come: a run that was
// interrupted goes on where it stopped. The first line says what they were measured with.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/fidelity/result.h"
#include "eval/prompts.h"

namespace anchorage::eval {

// One writer at a time.
class ResultsFile {
 public:
  // Opens `path` or begins it. `setting`, one line of JSON, is everything that results depend on
  // beside the prompt. A last line that was torn is cut off a file that begins with `setting`,
  // or that has no more than a part of it. FailedPrecondition: the file was measured with another
  // setting or is none of ours. DataLoss: a whole line is no result. Either leaves the file as it
  // is. InvalidArgument: it cannot be written.
  static absl::StatusOr<ResultsFile> Open(const std::string& path, const std::string& setting);

  // What was measured on exactly this prompt, or null.
  const PromptResult* Find(const Prompt& prompt) const;

  // Writes the result through to the file before it returns.
  absl::Status Append(PromptResult result);

 private:
  explicit ResultsFile(std::string path) : path_(std::move(path)) {}

  absl::Status Read(const std::string& content, const std::string& setting);
  absl::Status AppendLine(const std::string& line) const;

  std::string path_;
  std::vector<PromptResult> results_;
};

}  // namespace anchorage::eval
