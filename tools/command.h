// One subcommand of `anchorage`. Each lives in a file of its own (generate.cc, plan.cc, ...),
// defines the flags that only it takes with ABSL_FLAG, and has one entry function, listed in
// main.cc.
//
//   const Command& PlanCommand();          // declared in tools/plan.h
//
// main.cc parses the flags that the command names and calls `run`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace anchorage::tools {

struct Command {
  std::string_view name;         // "generate"
  std::string_view arguments;    // what stands after the flags, such as "FILE"; may be empty
  std::string_view summary;      // one line, for the list of commands
  std::string_view description;  // --help: what it does, with an example
  std::vector<std::string_view>
      flags;  // names of the flags it takes, with underscores, in --help order
  // Runs after the flags are parsed. InvalidArgument ends the program with 2, any other error with
  // 1; the message is printed on standard error.
  absl::Status (*run)(const std::vector<std::string>& arguments);
  // `anchorage eval ruler`: when there are any, the first argument names one, with flags of its
  // own, and `flags` and `run` are not used.
  std::vector<const Command*> subcommands = {};
};

}  // namespace anchorage::tools
