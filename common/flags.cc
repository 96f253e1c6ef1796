#include "common/flags.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/time/time.h"
#include "common/status.h"
#include "common/version.h"

extern char** environ;

namespace anchorage {
namespace {

constexpr std::string_view kPrefix = "ANCHORAGE_";

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

// `kv-memory` and `KV_MEMORY` are the flag kv_memory.
std::string FlagName(std::string_view spelled) {
  std::string name(spelled);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::tolower(c));
  });
  return name;
}

std::string Dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

const char* Expected(const absl::CommandLineFlag& flag) {
  if (flag.IsOfType<bool>()) return "true or false";
  if (flag.IsOfType<absl::Duration>()) return "a duration, such as 500ms, 10s or 2m";
  if (flag.IsOfType<int>() || flag.IsOfType<int64_t>()) return "a whole number";
  if (flag.IsOfType<uint64_t>()) return "a whole number of at least 0";
  if (flag.IsOfType<double>()) return "a number";
  return "valid";
}

// `source`: what the user wrote it as, "--ratio" or "ANCHORAGE_RATIO".
void Set(absl::CommandLineFlag& flag, const std::string& source, std::string_view value) {
  std::string error;
  if (flag.ParseFrom(ToAbsl(value), &error)) return;
  DieOfBadFlag(Invalid("%s: '%s' is not %s", source, std::string(value), Expected(flag)));
}

void SetFromEnvironment() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view pair(*entry);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || !pair.starts_with(kPrefix)) continue;
    const std::string name = FlagName(pair.substr(kPrefix.size(), equals - kPrefix.size()));
    absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    if (flag == nullptr) continue;  // another program's variable
    Set(*flag, std::string(pair.substr(0, equals)), pair.substr(equals + 1));
  }
}

// Our own flags, not those of the libraries.
std::vector<std::string> AllFlags() {
  std::vector<std::string> names;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (flag->Filename().find("absl/") == std::string::npos) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

class CommandLine {
 public:
  CommandLine(std::string_view usage, const std::vector<std::string_view>& taken)
      : usage_(usage), taken_(taken.begin(), taken.end()) {
    if (taken_.empty()) taken_ = AllFlags();
  }

  std::vector<std::string> Parse(int argc, char** argv) {
    std::vector<std::string> positional;
    int i = 1;
    for (; i < argc && std::string_view(argv[i]) != "--"; ++i) {
      const std::string_view argument(argv[i]);
      if (argument.size() < 2 || argument.front() != '-') {
        positional.emplace_back(argument);
      } else if (TakeFlag(argument, i + 1 < argc ? argv[i + 1] : nullptr)) {
        ++i;
      }
    }
    for (++i; i < argc; ++i) positional.emplace_back(argv[i]);
    return positional;
  }

 private:
  // `--name=value`, `--name` (of a switch), `--noname` or `--name value`. Returns whether `next`
  // was its value.
  bool TakeFlag(std::string_view argument, const char* next) {
    const size_t equals = argument.find('=');
    const std::string spelled(argument.substr(0, equals));
    const std::string name =
        FlagName(spelled.substr(std::min(spelled.find_first_not_of('-'), spelled.size())));
    if (name == "help" || name == "h") PrintHelp();
    if (name == "version") PrintVersion();
    if (absl::CommandLineFlag* const flag = Find(name)) {
      if (equals != std::string_view::npos) {
        Set(*flag, spelled, argument.substr(equals + 1));
      } else if (flag->IsOfType<bool>()) {
        Set(*flag, spelled, "true");
      } else if (next != nullptr) {
        Set(*flag, spelled, next);
        return true;
      } else {
        DieOfBadFlag(Invalid("%s: needs a value", spelled));
      }
      return false;
    }
    absl::CommandLineFlag* const negated = name.starts_with("no") ? Find(name.substr(2)) : nullptr;
    if (negated == nullptr || !negated->IsOfType<bool>() || equals != std::string_view::npos) {
      DieOfBadFlag(Invalid("there is no flag %s; see --help", spelled));
    }
    Set(*negated, spelled, "false");
    return false;
  }

  absl::CommandLineFlag* Find(const std::string& name) const {
    const bool is_taken = std::find(taken_.begin(), taken_.end(), name) != taken_.end();
    return is_taken ? absl::FindCommandLineFlag(name) : nullptr;
  }

  [[noreturn]] void PrintHelp() const {
    std::printf("%s\n\nflags:\n", usage_.c_str());
    for (const std::string& name : taken_) {
      const absl::CommandLineFlag& flag = *absl::FindCommandLineFlag(name);
      const std::string value = flag.DefaultValue();
      absl::PrintF("  --%-20s %s%s\n", Dashed(name), flag.Help(),
                   value.empty() ? "" : absl::StrFormat(" (default: %s)", value));
    }
    absl::PrintF("  --%-20s %s\n", "version", "print the version and exit");
    absl::PrintF("\nEach flag can also be given as an environment variable: %s%s for --%s.\n",
                 std::string(kPrefix), Uppercase(taken_.front()), Dashed(taken_.front()));
    std::exit(0);
  }

  [[noreturn]] static void PrintVersion() {
    std::printf("anchorage %s\n", kVersion);
    std::exit(0);
  }

  static std::string Uppercase(std::string name) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return name;
  }

  const std::string usage_;
  std::vector<std::string> taken_;
};

}  // namespace

std::vector<std::string> ParseFlags(std::string_view usage, int argc, char** argv,
                                    const std::vector<std::string_view>& taken) {
  CommandLine line(usage, taken);
  SetFromEnvironment();
  return line.Parse(argc, argv);
}

absl::StatusOr<int64_t> MillisecondsOf(const char* flag, absl::Duration duration) {
  if (duration < absl::Milliseconds(1) || duration > absl::Hours(1000)) {
    return Invalid("%s: %s is not in 1ms..1000h", flag, absl::FormatDuration(duration));
  }
  return absl::ToInt64Milliseconds(duration);
}

void DieOfBadFlag(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(2);
}

}  // namespace anchorage
