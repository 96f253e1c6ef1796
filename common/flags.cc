#include "common/flags.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "common/version.h"

extern char** environ;

namespace anchorage {
namespace {

constexpr std::string_view kPrefix = "ANCHORAGE_";

std::string FlagNameFor(std::string_view variable) {
  std::string name(variable.substr(kPrefix.size()));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

void SetFromEnvironment() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view pair(*entry);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || !pair.starts_with(kPrefix)) continue;
    absl::CommandLineFlag* flag = absl::FindCommandLineFlag(FlagNameFor(pair.substr(0, equals)));
    if (flag == nullptr) continue;  // another program's variable
    std::string error;
    const std::string value(pair.substr(equals + 1));
    if (!flag->ParseFrom(value, &error)) {
      std::fprintf(stderr, "%.*s: '%s' is not valid: %s\n", static_cast<int>(equals), *entry,
                   value.c_str(), error.c_str());
      std::exit(2);
    }
  }
}

// `--kv-memory=1GiB` becomes `--kv_memory=1GiB`: absl flags are named with underscores.
std::vector<std::string> WithUnderscores(int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument.size() < 3 || argument.compare(0, 2, "--") != 0) continue;
    const size_t end = std::min(argument.find('='), argument.size());
    std::replace(argument.begin() + 2, argument.begin() + static_cast<std::ptrdiff_t>(end), '-',
                 '_');
  }
  return arguments;
}

}  // namespace

std::vector<std::string> ParseFlags(const char* usage, int argc, char** argv) {
  absl::SetProgramUsageMessage(usage);
  absl::FlagsUsageConfig config;
  config.version_string = [] { return std::string("anchorage ") + kVersion + "\n"; };
  // --help shows our own flags, not those of the libraries.
  config.contains_help_flags = [](absl::string_view file) {
    return file.find("absl/") == absl::string_view::npos;
  };
  config.contains_helpshort_flags = config.contains_help_flags;
  absl::SetFlagsUsageConfig(config);
  SetFromEnvironment();
  std::vector<std::string> arguments = WithUnderscores(argc, argv);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  std::vector<char*> rest =
      absl::ParseCommandLine(static_cast<int>(pointers.size()), pointers.data());
  return {rest.begin() + 1, rest.end()};
}

void DieOfBadFlag(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(2);
}

}  // namespace anchorage
