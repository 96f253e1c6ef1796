#include "eval/fidelity/results_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/read_file.h"
#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::eval {

absl::StatusOr<ResultsFile> ResultsFile::Open(const std::string& path, const std::string& setting) {
  ResultsFile file(path);
  absl::StatusOr<std::string> content = ReadFile(path);
  if (absl::IsNotFound(content.status())) content = "";
  if (!content.ok()) return content.status();
  const size_t whole = content->rfind('\n') == std::string::npos ? 0 : content->rfind('\n') + 1;
  // Nothing is cut before the file is known to be one of ours.
  if (whole == 0 && !setting.starts_with(*content)) {
    return FailedPrecondition("%s is no file of results: name another --out or delete it", path);
  }
  RETURN_IF_ERROR(file.Read(content->substr(0, whole), setting));
  if (whole < content->size()) {
    std::error_code error;
    std::filesystem::resize_file(path, whole, error);
    if (error) return Invalid("cannot cut the torn last line off %s", path);
  }
  if (whole == 0) RETURN_IF_ERROR(file.AppendLine(setting));
  return file;
}

// `content` is whole lines.
absl::Status ResultsFile::Read(const std::string& content, const std::string& setting) {
  std::string_view rest = content;
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    if (number == 1) {
      if (line == setting) continue;
      return FailedPrecondition(
          "%s was measured with other settings: name another --out or delete it\n  there: %s\n  "
          "now:   %s",
          path_, std::string(line), setting);
    }
    absl::StatusOr<PromptResult> result = ResultFromJson(line);
    if (!result.ok()) {
      return DataLoss("%s, line %d: %s; delete the line to have that prompt measured again", path_,
                      number, std::string(result.status().message()));
    }
    results_.push_back(*std::move(result));
  }
  return absl::OkStatus();
}

const PromptResult* ResultsFile::Find(const Prompt& prompt) const {
  const uint64_t digest = prompt.Digest();
  const auto found = std::find_if(results_.begin(), results_.end(), [&](const PromptResult& one) {
    return one.digest == digest && one.kind == prompt.kind && one.index == prompt.index &&
           one.seq_len == prompt.seq_len;
  });
  return found == results_.end() ? nullptr : &*found;
}

absl::Status ResultsFile::Append(PromptResult result) {
  RETURN_IF_ERROR(AppendLine(ToJsonLine(result)));
  results_.push_back(std::move(result));
  return absl::OkStatus();
}

absl::Status ResultsFile::AppendLine(const std::string& line) const {
  std::ofstream file(path_, std::ios::app | std::ios::binary);
  file << line << "\n";
  if (!file.flush()) return Invalid("cannot write %s", path_);
  return absl::OkStatus();
}

}  // namespace anchorage::eval
