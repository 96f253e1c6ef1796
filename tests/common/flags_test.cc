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

TEST(FlagsTest, SwitchesNeedNoValue) {
  EXPECT_EQ(RunProgram("", "--loud a").output, "7 anchorkv loud [a]\n");
  EXPECT_EQ(RunProgram("ANCHORAGE_LOUD=true", "--noloud").output, "7 anchorkv\n");
  EXPECT_EQ(RunProgram("", "--loud=false").output, "7 anchorkv\n");
}

TEST(FlagsTest, ABadValueStopsTheProgramWithASentence) {
  const auto refusal = [](const std::string& environment, const std::string& arguments) {
    const Outcome outcome = RunProgram(environment, arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    return outcome.output;
  };
  EXPECT_EQ(refusal("ANCHORAGE_QUEUE_SIZE=many", ""),
            "ANCHORAGE_QUEUE_SIZE: 'many' is not a whole number\n");
  EXPECT_EQ(refusal("", "--queue-size=many"), "--queue-size: 'many' is not a whole number\n");
  EXPECT_EQ(refusal("", "--pause 5"), "--pause: '5' is not a duration, such as 500ms, 10s or 2m\n");
  EXPECT_EQ(refusal("", "--queue-size"), "--queue-size: needs a value\n");
  EXPECT_EQ(refusal("", "--no-such-flag=1"), "there is no flag --no-such-flag; see --help\n");
  EXPECT_EQ(refusal("", "---"), "there is no flag ---; see --help\n");
  EXPECT_EQ(refusal("", "--=x"), "there is no flag --; see --help\n");
  EXPECT_EQ(refusal("", "--nokv"), "there is no flag --nokv; see --help\n");
}

TEST(FlagsTest, DurationsAreFinite) {
  EXPECT_EQ(*MillisecondsOf("--lease", absl::Seconds(2)), 2'000);
  for (const absl::Duration bad :
       {absl::ZeroDuration(), -absl::Seconds(1), absl::Hours(1001), absl::InfiniteDuration()}) {
    EXPECT_FALSE(MillisecondsOf("--lease", bad).ok());
  }
  EXPECT_EQ(MillisecondsOf("--lease", absl::InfiniteDuration()).status().message(),
            "--lease: inf is not in 1ms..1000h");
}

TEST(FlagsTest, HelpShowsOwnFlagsAndVersionTheVersion) {
  const Outcome help = RunProgram("", "--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.output.find("flags_program: prints its flags.\n"), 0u);
  EXPECT_NE(help.output.find("--queue-size           how many may wait (default: 7)\n"),
            std::string::npos)
      << help.output;
  EXPECT_EQ(help.output.find("flagfile"), std::string::npos);
  const Outcome version = RunProgram("", "--version");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.output.substr(0, 10), "anchorage ");
}

}  // namespace
}  // namespace anchorage
