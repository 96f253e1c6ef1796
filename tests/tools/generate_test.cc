// The `anchorage` program itself: what it prints and how it ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/tiny_model.h"

namespace anchorage::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int code = -1;
  std::string output;
};

// Standard error is part of the output where `with_errors`.
Outcome RunProgram(const std::string& arguments, bool with_errors) {
  const std::string command =
      std::string(ANCHORAGE_PROGRAM) + " " + arguments + (with_errors ? " 2>&1" : " 2>/dev/null");
  std::FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome;
  char buffer[4096];
  while (const size_t size = std::fread(buffer, 1, sizeof(buffer), pipe)) {
    outcome.output.append(buffer, size);
  }
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

std::string Generate(const std::string& flags) {
  return "generate --model " + testing::TinyModelPath() + " --threads 1 " + flags;
}

nlohmann::json RunJson(const std::string& flags) {
  const Outcome outcome = RunProgram(Generate(flags + " --json"), false);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  return nlohmann::json::parse(outcome.output);
}

TEST(AnchorageTest, ListsAndExplainsItsCommands) {
  const Outcome list = RunProgram("--help", false);
  EXPECT_EQ(list.code, 0);
  for (const char* command : {"generate", "plan", "inspect"}) {
    EXPECT_THAT(list.output, HasSubstr(command));
    const Outcome help = RunProgram(std::string(command) + " --help", false);
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.output, HasSubstr("usage: anchorage " + std::string(command)));
    EXPECT_THAT(help.output, HasSubstr("--json"));
  }
  const Outcome evaluations = RunProgram("eval --help", false);
  EXPECT_EQ(evaluations.code, 0);
  EXPECT_THAT(evaluations.output, HasSubstr("usage: anchorage eval COMMAND"));
  EXPECT_THAT(evaluations.output, HasSubstr("  ruler "));
  EXPECT_THAT(RunProgram("eval ruler --help", false).output,
              HasSubstr("usage: anchorage eval ruler [flags]"));
  EXPECT_THAT(RunProgram("--version", false).output, HasSubstr("anchorage "));
}

TEST(AnchorageTest, RefusesBadUsageWithASentence) {
  const auto refused = [](const std::string& arguments, const std::string& reason) {
    const Outcome outcome = RunProgram(arguments, true);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(reason)) << arguments;
  };
  refused("", "usage");
  refused("dance", "'dance' is no command");
  refused("eval", "usage: anchorage eval COMMAND");
  refused("eval dance", "'dance' is no command");
  refused("eval ruler --tasks dance", "--tasks: 'dance' is no task; there are: all, niah_single_1");
  refused("eval ruler stray", "stray");
  refused("generate --modell x", "no flag --modell");
  refused("plan --temperature 1", "no flag --temperature");
  refused("generate --prompt x", "--model is missing");
  refused(Generate("--prompt ''  </dev/null"), "the prompt is empty");
  refused(Generate("--prompt x --kv zip"), "'zip'");
  refused(Generate("--prompt x --ratio 0.5"), "--ratio");
  refused(Generate("--prompt x --schedule sideways"), "sideways");
  refused(Generate("--prompt x --max-tokens 0"), "--max-tokens");
  refused(Generate("--prompt x --temperature -1"), "temperature");
  refused(Generate("--prompt x --file y"), "exclude");
  refused(Generate("--prompt x stray"), "stray");
}

TEST(PlanTest, SaysWhichLayersTheProfileExpectsToCostMost) {
  const std::string path = ::testing::TempDir() + "/two_layers.kvprofile.json";
  std::ofstream(path) << R"({"format": "anchorage-kv-profile", "version": 1, "model": "two layers",
      "calibration": "none", "layers": 2, "kv_heads": 3, "head_dim": 64, "millibits": [0, 4000],
      "nanonats": [[1000000, 500000], [5000000, 1500000]]})";
  const std::string flags = "plan --layers 2 --kv-heads 3 --head-dim 64 --tokens 4096 --ratio 5 ";
  const Outcome outcome = RunProgram(flags + "--kv-profile " + path, false);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("layer 1     0.001500 nats   66 %"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("others")));
  EXPECT_THAT(outcome.output, HasSubstr("layer 0     0.000763 nats   34 %"));
  const auto json =
      nlohmann::json::parse(RunProgram(flags + "--json --kv-profile " + path, false).output);
  EXPECT_NEAR(json["layer_nanonats_left"][1].get<int>(), 1500000, 100) << "at its last rate";
  for (const std::string& without :
       {flags, flags + "--layout paper --kv-profile " + path, flags + "--json"}) {
    EXPECT_THAT(RunProgram(without, false).output, Not(HasSubstr("nats"))) << without;
  }
  std::filesystem::remove(path);
}

TEST(AnchorageTest, SaysWhichFileIsMissing) {
  const Outcome outcome = RunProgram("generate --model /nowhere.gguf --prompt x", true);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("/nowhere.gguf"));
}

TEST(GenerateTest, StreamsTheTextThatItsTokensSpell) {
  const std::string flags = "--prompt 'The river rises' --max-tokens 12 --ignore-eos";
  const nlohmann::json json = RunJson(flags);
  EXPECT_EQ(json["token_ids"].size(), 12u);
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_EQ(RunProgram(Generate(flags), false).output, json["text"].get<std::string>() + "\n");
}

TEST(GenerateTest, ReadsItsPromptFromFlagFileOrStandardInput) {
  const std::string path = ::testing::TempDir() + "/prompt.txt";
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("The river rises", file);
  std::fclose(file);
  const nlohmann::json ids = RunJson("--prompt 'The river rises' --max-tokens 1")["prompt_ids"];
  EXPECT_EQ(RunJson("--max-tokens 1 --file " + path)["prompt_ids"], ids);
  EXPECT_EQ(RunJson("--max-tokens 1 < " + path)["prompt_ids"], ids);
  const nlohmann::json chat = RunJson("--chat --prompt 'The river rises' --max-tokens 1");
  EXPECT_GT(chat["prompt_ids"].size(), ids.size());
  EXPECT_EQ(chat["prompt_ids"].front(), 1);  // <|im_start|>
}

TEST(GenerateTest, BytesAreThoseOfThePlan) {
  const std::string path = ::testing::TempDir() + "/long.txt";
  std::FILE* file = std::fopen(path.c_str(), "w");
  for (int i = 0; i < 300; ++i) std::fprintf(file, "Line %d of a long prompt. ", i);
  std::fclose(file);
  for (const char* kv : {"anchorkv", "snapkv", "recent", "none"}) {
    const std::string kv_flag = std::string(" --kv ") + kv;
    const nlohmann::json json = RunJson("--max-tokens 20 --file " + path + kv_flag);
    const Outcome plan = RunProgram("plan --model " + testing::TinyModelPath() + " --tokens " +
                                        std::to_string(json["prompt_tokens"].get<int>()) +
                                        " --max-new 20 --json" + kv_flag,
                                    false);
    ASSERT_EQ(plan.code, 0) << plan.output;
    const nlohmann::json planned = nlohmann::json::parse(plan.output);
    EXPECT_EQ(json["bytes"]["decode_reserved"], planned["request"]["bytes"]) << kv;
    EXPECT_EQ(json["bytes"]["decode_planned"], planned["request"]["bytes"]) << kv;
    EXPECT_GT(json["peak_bytes"]["active_kv"], 0);
  }
}

TEST(GenerateTest, SavesACacheThatInspectFindsGood) {
  const std::string directory = ::testing::TempDir() + "/saved_kv";
  RunJson("--prompt 'The river rises in the hills' --max-tokens 2 --save-kv " + directory);
  const Outcome inspect = RunProgram("inspect " + directory + "/cache.anchorkv", true);
  EXPECT_EQ(inspect.code, 0) << inspect.output;
  EXPECT_THAT(inspect.output, HasSubstr("4 of 4 layers good"));
  std::filesystem::remove_all(directory);
}

TEST(GenerateTest, ASeedRepeatsItself) {
  const std::string flags =
      "--prompt 'The river' --max-tokens 8 --temperature 1.5 --ignore-eos --seed ";
  const nlohmann::json one = RunJson(flags + "1")["token_ids"];
  EXPECT_EQ(RunJson(flags + "1")["token_ids"], one);
  EXPECT_NE(RunJson(flags + "2")["token_ids"], one);
}

}  // namespace
}  // namespace anchorage::tools
