#include "eval/own_text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::eval {
namespace {

namespace fs = std::filesystem;

// The rooms, so that build folders and the like beside them stay out.
constexpr const char* kRooms[] = {"common", "decode_node", "files",        "kernels", "kv",
                                  "model",  "observe",     "prefill_node", "router",  "text",
                                  "tools",  "transport",   "worker"};

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read %s", path.string());
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::vector<fs::path> FilesUnder(const fs::path& folder,
                                 std::initializer_list<std::string_view> extensions) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, ignored)) {
    const std::string extension = entry.path().extension().string();
    if (entry.is_regular_file() &&
        std::find(extensions.begin(), extensions.end(), extension) != extensions.end()) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::string> Concatenate(const std::vector<fs::path>& files) {
  std::string text;
  for (const fs::path& path : files) {
    ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
    text += content;
  }
  return text;
}

// The lines that are nothing but a comment, without its mark.
std::string CommentsOf(const std::string& source) {
  std::istringstream lines(source);
  std::string comments;
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || line.compare(begin, 2, "//") != 0) continue;
    comments += line.substr(std::min(line.size(), begin + 3)) + "\n";
  }
  return comments;
}

std::vector<fs::path> DocumentsOf(const fs::path& root) {
  std::vector<fs::path> files = FilesUnder(root / "docs", {".md"});
  for (const char* name : {"LICENSE", "README.md"}) {
    if (fs::exists(root / name)) files.push_back(root / name);
  }
  return files;
}

std::vector<fs::path> ProgramsOf(const fs::path& root) {
  std::vector<fs::path> files = FilesUnder(root / "scripts", {".py", ".sh"});
  const std::vector<fs::path> tests = FilesUnder(root / "tests", {".py", ".sh"});
  files.insert(files.end(), tests.begin(), tests.end());
  return files;
}

std::vector<fs::path> SourcesOf(const fs::path& root) {
  std::vector<fs::path> files;
  const auto add = [&](const char* folder) {
    const std::vector<fs::path> some = FilesUnder(root / folder, {".h", ".cc"});
    files.insert(files.end(), some.begin(), some.end());
  };
  for (const char* room : kRooms) add(room);
  for (const char* beside : {"eval", "bench", "tests"}) add(beside);
  return files;
}

absl::StatusOr<std::string> ReadProse(const fs::path& root) {
  ASSIGN_OR_RETURN(std::string text,
                   Concatenate({root / "LICENSE", root / "docs" / "ARCHITECTURE.md"}));
  for (const char* room : kRooms) {
    for (const fs::path& path : FilesUnder(root / room, {".h"})) {
      ASSIGN_OR_RETURN(const std::string source, ReadFile(path));
      text += CommentsOf(source) + "\n";
    }
  }
  return text;
}

absl::StatusOr<std::string> ReadScripts(const fs::path& root) {
  return Concatenate(ProgramsOf(root));
}

}  // namespace

absl::StatusOr<std::string> ReadOwnText(std::string_view kind, const std::string& root) {
  const fs::path top(root);
  if (kind == "code") return Concatenate(FilesUnder(top / "kernels", {".h", ".cc"}));
  if (kind == "prose") return ReadProse(top);
  if (kind == "scripts") return ReadScripts(top);
  return Invalid("no text of kind '%s'", kind);
}

absl::StatusOr<std::vector<std::string>> ReadOwnFiles(std::string_view sort,
                                                      const std::string& root) {
  if (sort != "code" && sort != "prose") return Invalid("no texts of the sort '%s'", sort);
  const bool code = sort == "code";
  std::vector<std::string> texts;
  for (const fs::path& path : code ? ProgramsOf(root) : DocumentsOf(root)) {
    ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    texts.push_back(std::move(text));
  }
  for (const fs::path& path : SourcesOf(root)) {
    ASSIGN_OR_RETURN(std::string source, ReadFile(path));
    texts.push_back(code ? std::move(source) : CommentsOf(source));
  }
  std::erase_if(texts, [](const std::string& text) { return text.empty(); });
  if (texts.empty()) {
    return NotFound("no %s under '%s': run from the top folder of the sources or name it", sort,
                    root);
  }
  return texts;
}

}  // namespace anchorage::eval
