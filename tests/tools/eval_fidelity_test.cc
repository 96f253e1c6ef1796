// `anchorage eval fidelity` as a program: what it prints, what it leaves and how it goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "common/read_file.h"
#include "tests/support/tiny_model.h"

namespace anchorage::tools {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string output;  // standard error included
};

Outcome RunProgram(const std::string& arguments) {
  const std::string command =
      std::string(ANCHORAGE_PROGRAM) + " eval fidelity " + arguments + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome;
  char buffer[4096];
  while (const size_t size = std::fread(buffer, 1, sizeof(buffer), pipe)) {
    outcome.output.append(buffer, size);
  }
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

class EvalFidelityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }

  Outcome Run(const std::string& flags) const {
    return RunProgram("--model " + testing::TinyModelPath() + " --threads 2 --out " + folder_ +
                      " " + flags);
  }

  std::string Left(const std::string& name) const {
    const auto content = ReadFile(folder_ + "/" + name);
    EXPECT_TRUE(content.ok()) << content.status();
    return content.value_or("");
  }

  std::string folder_;
};

constexpr const char* kSmall =
    "--lengths 1000 --forced 100 --prompts 1 --methods compact,paper --ratios 10,20 "
    "--probe-rows 4 ";

TEST_F(EvalFidelityTest, LeavesTablesAndPlotsAndGoesOn) {
  const Outcome first = Run(kSmall);
  ASSERT_EQ(first.code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("## 1000 tokens, all (prompts: 3)"));
  EXPECT_THAT(first.output, HasSubstr(Left("report.md")));
  EXPECT_THAT(Left("kl_1000.svg"), HasSubstr("</svg>"));
  const auto report = nlohmann::json::parse(Left("report.json"));
  ASSERT_EQ(report["groups"].size(), 4u);
  const auto& full = report["groups"][3]["candidates"][0];
  EXPECT_EQ(full["kl_mean_nats"], 0);
  EXPECT_LT(report["groups"][3]["worst_floor_nats"], 1e-3);
  const std::string results = Left("results.jsonl");
  EXPECT_EQ(std::count(results.begin(), results.end(), '\n'), 4);

  // As if it had been interrupted while it wrote the last line.
  std::filesystem::resize_file(folder_ + "/results.jsonl", results.size() - 10);
  const Outcome second = Run(kSmall);
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output, HasSubstr("2 of 3 prompts are measured already"));
  EXPECT_EQ(nlohmann::json::parse(Left("report.json")), report);

  const Outcome other = Run(std::string(kSmall) + "--pin-sinks 5");
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.output, HasSubstr("name another --out"));
}

TEST_F(EvalFidelityTest, JudgesATextOfTheUsers) {
  std::filesystem::create_directories(folder_);
  std::ofstream text(folder_ + "/mine.txt");
  for (int i = 0; i < 400; ++i) text << "Line " << i << " of a text of mine.\n\n";
  text.close();
  const Outcome outcome =
      Run(std::string(kSmall) + "--json --kinds text --text " + folder_ + "/mine.txt");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const auto json = nlohmann::json::parse(outcome.output.substr(outcome.output.find("{\"")));
  EXPECT_EQ(json["groups"][0]["kind"], "text");
  EXPECT_THAT(json["setting"].get<std::string>(), HasSubstr("mine.txt"));
}

TEST_F(EvalFidelityTest, RefusesBadUsageWithASentence) {
  const auto refused = [this](const std::string& flags, const std::string& reason) {
    const Outcome outcome = Run(flags);
    EXPECT_EQ(outcome.code, 2) << flags << ": " << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(reason)) << flags;
  };
  refused("stray", "takes no argument, got 'stray'");
  refused("--out ''", "--out is missing");
  refused("--model ''", "--model is missing");
  refused("--methods zip", "'zip' is none of full, compact, paper");
  refused("--ratios ten", "--ratios: 'ten' is not a number");
  refused("--lengths long", "--lengths: 'long' is not a number of tokens");
  refused("--kinds verse", "'verse' is not prose, code, retrieval or text");
  refused("--lengths 9000 --prompts 1", "the model's context is 8192");
  refused("--probe-rows 0", "--probe-rows");
  refused("--check --ratios 5", "--check judges 'compact 10x'");
  refused("--check --lengths 1000", "--check judges prompts of 4096 tokens");
  refused("--check --kinds retrieval", "--check judges texts: name prose, code or text");
  refused("--kinds prose,prose", "--kinds: 'prose' stands there twice");
  refused("--lengths 256,256", "--lengths: 256 stands there twice");
  refused("--forced 9223372036854775807", "the model's context is 8192");
  refused("--text mine.txt --kinds prose", "--text: no prompt is taken from mine.txt");
  refused("--ratios 1e9", "1e+09 is not a compression of 1 to 1000000");
}

TEST_F(EvalFidelityTest, HelpNamesEveryAblation) {
  const Outcome help = RunProgram("--help");
  EXPECT_EQ(help.code, 0) << help.output;
  EXPECT_THAT(help.output, HasSubstr("--methods: full, compact, paper, snapkv, recent, or ablati"));
  EXPECT_THAT(help.output, HasSubstr("rank-random         residuals go anywhere"));
  EXPECT_THAT(help.output, HasSubstr("window-128          an observation window of 128"));
}

}  // namespace
}  // namespace anchorage::tools
