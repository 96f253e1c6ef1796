// The `anchorage` command: one program, several subcommands.

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/flags.h"
#include "common/version.h"
#include "tools/command.h"
#include "tools/generate.h"
#include "tools/inspect.h"
#include "tools/plan.h"
#include "tools/profile.h"

namespace anchorage::tools {
namespace {

constexpr int kBadUsage = 2;

std::vector<const Command*> Commands() {
  return {&GenerateCommand(), &PlanCommand(), &InspectCommand(), &ProfileCommand()};
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

std::string Usage(const Command& command) {
  return absl::StrFormat("usage: anchorage %s [flags]%s%s\n\n%s", command.name,
                         command.arguments.empty() ? "" : " ", command.arguments,
                         command.description);
}

int RunCommand(const Command& command, int argc, char** argv) {
  const absl::Status status = command.run(ParseFlags(Usage(command), argc, argv, command.flags));
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
