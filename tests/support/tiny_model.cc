#include "tests/support/tiny_model.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "absl/strings/str_format.h"

namespace anchorage::testing {
namespace {

constexpr char kScript[] = ANCHORAGE_MAKE_TINY_MODEL;

std::string ReadText(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::string TinyModelPath(const TinyModelOptions& options) {
  const std::string flags = absl::StrFormat(
      "--layers %d --hidden %d --heads %d --kv-heads %d --head-dim %d --ff %d --context %d --seed "
      "%d --types %s",
      options.layers, options.hidden, options.heads, options.kv_heads, options.head_dim, options.ff,
      options.context, options.seed, options.types);
  const size_t digest = std::hash<std::string>()(ReadText(kScript) + flags);
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / absl::StrFormat("anchorage-tiny-%016x.gguf", digest);
  if (std::filesystem::exists(path)) return path.string();
  const std::string command =
      absl::StrFormat("'%s' %s '%s' 2>/dev/null", kScript, flags, path.string());
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "failed: %s\n", command.c_str());
    std::abort();
  }
  return path.string();
}

std::string RealModelPath() {
  if (const char* path = std::getenv("ANCHORAGE_MODEL"); path != nullptr && *path != '\0') {
    return path;
  }
  return ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

}  // namespace anchorage::testing
