#include "tools/eval.h"

#include "tools/eval_fidelity.h"
#include "tools/eval_ruler.h"

namespace anchorage::tools {

const Command& EvalCommand() {
  static const Command command = {.name = "eval",
                                  .arguments = "",
                                  .summary = "what compression costs in answers",
                                  .description = "Each evaluation is a command of its own:",
                                  .flags = {},
                                  .run = nullptr,
                                  .subcommands = {&EvalFidelityCommand(), &EvalRulerCommand()}};
  return command;
}

}  // namespace anchorage::tools
