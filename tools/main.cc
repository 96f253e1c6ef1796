// The `anchorage` command: one program, several subcommands.

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/flags.h"
#include "common/version.h"
#include "tools/command.h"
#include "tools/eval.h"
#include "tools/generate.h"
#include "tools/inspect.h"
#include "tools/plan.h"
#include "tools/profile.h"

namespace anchorage::tools {
namespace {

constexpr int kBadUsage = 2;

std::vector<const Command*> Commands() {
  return {&GenerateCommand(), &PlanCommand(), &InspectCommand(), &EvalCommand(), &ProfileCommand()};
}

void PrintList(std::FILE* out, const std::vector<const Command*>& commands) {
  for (const Command* command : commands) {
    absl::FPrintF(out, "  %-10s %s\n", command->name, command->summary);
  }
}

void PrintCommands(std::FILE* out) {
  std::fprintf(out,
               "anchorage %s: long-context inference with a compressed KV cache\n\n"
               "usage: anchorage COMMAND [flags]\n\n",
               kVersion);
  PrintList(out, Commands());
  std::fprintf(
      out,
      "\n`anchorage COMMAND --help` explains a command and its flags. Each flag can also be "
      "given\nas an environment variable: ANCHORAGE_MODEL for --model.\n");
}

void PrintSubcommands(std::FILE* out, const Command& command) {
  absl::FPrintF(out, "usage: anchorage %s COMMAND [flags]\n\n%s\n\n", command.name,
                command.description);
  PrintList(out, command.subcommands);
}

// `name`: the whole of it, "eval ruler".
std::string Usage(const std::string& name, const Command& command) {
  return absl::StrFormat("usage: anchorage %s [flags]%s%s\n\n%s", name,
                         command.arguments.empty() ? "" : " ", command.arguments,
                         command.description);
}

bool AsksForHelp(std::string_view argument) {
  return argument == "--help" || argument == "-h" || argument == "help";
}

const Command* FindCommand(const std::vector<const Command*>& commands, std::string_view name) {
  for (const Command* command : commands) {
    if (command->name == name) return command;
  }
  return nullptr;
}

// `argv[0]` is the last word of `name`.
int RunCommand(const std::string& name, const Command& command, int argc, char** argv) {
  const absl::Status status =
      command.run(ParseFlags(Usage(name, command), argc, argv, command.flags));
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "anchorage %s: %s\n", name, status.message());
  return absl::IsInvalidArgument(status) ? kBadUsage : 1;
}

int RunSubcommand(const Command& command, int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (AsksForHelp(name)) {
    PrintSubcommands(stdout, command);
    return 0;
  }
  if (const Command* const found = FindCommand(command.subcommands, name)) {
    return RunCommand(absl::StrFormat("%s %s", command.name, name), *found, argc - 1, argv + 1);
  }
  if (!name.empty()) {
    absl::FPrintF(stderr, "anchorage %s: '%s' is no command\n\n", command.name, name);
  }
  PrintSubcommands(stderr, command);
  return kBadUsage;
}

int Main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--version") {
    std::printf("anchorage %s\n", kVersion);
    return 0;
  }
  if (AsksForHelp(name)) {
    PrintCommands(stdout);
    return 0;
  }
  if (const Command* const found = FindCommand(Commands(), name)) {
    return found->subcommands.empty() ? RunCommand(std::string(name), *found, argc - 1, argv + 1)
                                      : RunSubcommand(*found, argc - 1, argv + 1);
  }
  if (!name.empty()) absl::FPrintF(stderr, "anchorage: '%s' is no command\n\n", name);
  PrintCommands(stderr);
  return kBadUsage;
}

}  // namespace
}  // namespace anchorage::tools

int main(int argc, char** argv) { return anchorage::tools::Main(argc, argv); }
