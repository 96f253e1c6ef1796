#include "common/flags.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "gtest/gtest.h"

namespace anchorage {
namespace {

struct Outcome {
  int exit_code = 0;
  std::string output;
};

Outcome RunProgram(const std::string& environment, const std::string& arguments) {
  const std::string command = environment + " " + FLAGS_PROGRAM + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> chunk;
  while (const size_t count = fread(chunk.data(), 1, chunk.size(), pipe)) {
    outcome.output.append(chunk.data(), count);
  }
  outcome.exit_code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

TEST(FlagsTest, TakesDashesUnderscoresAndPositionals) {
  EXPECT_EQ(RunProgram("", "").output, "7 anchorkv\n");
  EXPECT_EQ(RunProgram("", "--queue-size=3 a --kv none b-c").output, "3 none [a] [b-c]\n");
  EXPECT_EQ(RunProgram("", "--queue_size 4").output, "4 anchorkv\n");
  EXPECT_EQ(RunProgram("", "-- --queue-size=3").output, "7 anchorkv [--queue-size=3]\n");
}

TEST(FlagsTest, EnvironmentSetsAndCommandLineWins) {
  EXPECT_EQ(RunProgram("ANCHORAGE_QUEUE_SIZE=9 ANCHORAGE_OTHER=1", "").output, "9 anchorkv\n");
  EXPECT_EQ(RunProgram("ANCHORAGE_QUEUE_SIZE=9", "--queue-size=5").output, "5 anchorkv\n");
}

TEST(FlagsTest, ABadValueStopsTheProgramWithASentence) {
  const Outcome environment = RunProgram("ANCHORAGE_QUEUE_SIZE=many", "");
  EXPECT_EQ(environment.exit_code, 2);
  EXPECT_NE(environment.output.find("ANCHORAGE_QUEUE_SIZE"), std::string::npos);
  EXPECT_NE(environment.output.find("many"), std::string::npos);
  const Outcome line = RunProgram("", "--queue-size=many");
  EXPECT_NE(line.exit_code, 0);
  EXPECT_NE(line.output.find("queue_size"), std::string::npos);
  EXPECT_NE(RunProgram("", "--no-such-flag=1").exit_code, 0);
}

TEST(FlagsTest, HelpShowsOwnFlagsAndVersionTheVersion) {
  const Outcome help = RunProgram("", "--help");
  EXPECT_NE(help.output.find("how many may wait"), std::string::npos);
  EXPECT_EQ(help.output.find("flagfile"), std::string::npos);
  EXPECT_EQ(RunProgram("", "--version").output.substr(0, 10), "anchorage ");
}

}  // namespace
}  // namespace anchorage
