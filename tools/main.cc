// The `anchorage` command: one program, several subcommands.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_format.h"
#include "common/flags.h"
#include "common/status.h"
#include "common/version.h"
#include "tools/command.h"
#include "tools/generate.h"
#include "tools/inspect.h"
#include "tools/plan.h"

namespace anchorage::tools {
namespace {

constexpr int kBadUsage = 2;

std::vector<const Command*> Commands() {
  return {&GenerateCommand(), &PlanCommand(), &InspectCommand()};
}

void PrintCommands(std::FILE* out) {
  std::fprintf(out,
               "anchorage %s: long-context inference with a compressed KV cache\n\n"
               "usage: anchorage COMMAND [flags]\n\n",
               kVersion);
  for (const Command* command : Commands()) {
    absl::FPrintF(out, "  %-10s %s\n", command->name, command->summary);
  }
  std::fprintf(
      out,
      "\n`anchorage COMMAND --help` explains a command and its flags. Each flag can also be "
      "given\nas an environment variable: ANCHORAGE_MODEL for --model.\n");
}

std::string Dashed(std::string_view flag) {
  std::string name(flag);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

void PrintHelp(const Command& command) {
  absl::PrintF("usage: anchorage %s [flags]%s%s\n\n%s\n\nflags:\n", command.name,
               command.arguments.empty() ? "" : " ", command.arguments, command.description);
  for (const std::string_view name : command.flags) {
    const absl::CommandLineFlag* flag =
        absl::FindCommandLineFlag(absl::string_view(name.data(), name.size()));
    const std::string value = flag->DefaultValue();
    absl::PrintF("  --%-24s %s%s\n", Dashed(name), flag->Help(),
                 value.empty() ? "" : absl::StrFormat(" (default: %s)", value));
  }
}

bool TakesFlag(const Command& command, std::string_view name) {
  return std::find(command.flags.begin(), command.flags.end(), name) != command.flags.end();
}

// The flag's name in `--name`, `--name=value` or `--noname`; sets `takes_next` when the argument
// after it is its value. InvalidArgument: the command has no such flag.
absl::Status CheckFlag(const Command& command, std::string_view argument, bool& takes_next) {
  argument.remove_prefix(argument.starts_with("--") ? 2 : 1);
  const size_t equals = argument.find('=');
  std::string name(argument.substr(0, equals));
  std::replace(name.begin(), name.end(), '-', '_');
  takes_next = false;
  if (name.starts_with("no") && TakesFlag(command, name.substr(2))) return absl::OkStatus();
  if (!TakesFlag(command, name)) {
    return Invalid("anchorage %s has no flag --%s; see anchorage %s --help", command.name,
                   Dashed(name), command.name);
  }
  takes_next =
      equals == std::string_view::npos && !absl::FindCommandLineFlag(name)->IsOfType<bool>();
  return absl::OkStatus();
}

absl::Status CheckFlags(const Command& command, int argc, char** argv) {
  bool is_value = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument == "--") break;
    if (is_value || !argument.starts_with("-") || argument == "-") {
      is_value = false;
      continue;
    }
    if (absl::Status known = CheckFlag(command, argument, is_value); !known.ok()) return known;
  }
  return absl::OkStatus();
}

bool AsksForHelp(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](const char* argument) {
    return std::strcmp(argument, "--help") == 0 || std::strcmp(argument, "-h") == 0;
  });
}

int RunCommand(const Command& command, int argc, char** argv) {
  if (AsksForHelp(argc, argv)) {
    PrintHelp(command);
    return 0;
  }
  absl::Status status = CheckFlags(command, argc, argv);
  if (!status.ok()) DieOfBadFlag(status);
  status = command.run(ParseFlags("anchorage", argc, argv));
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "anchorage %s: %s\n", command.name, status.message());
  return absl::IsInvalidArgument(status) ? kBadUsage : 1;
}

int Main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--version") {
    std::printf("anchorage %s\n", kVersion);
    return 0;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    PrintCommands(stdout);
    return 0;
  }
  for (const Command* command : Commands()) {
    if (command->name == name) return RunCommand(*command, argc - 1, argv + 1);
  }
  if (!name.empty()) absl::FPrintF(stderr, "anchorage: '%s' is no command\n\n", name);
  PrintCommands(stderr);
  return kBadUsage;
}

}  // namespace
}  // namespace anchorage::tools

int main(int argc, char** argv) { return anchorage::tools::Main(argc, argv); }
