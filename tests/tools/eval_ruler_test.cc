// `anchorage eval ruler` as a program: which answers it goes on behind, and which it refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "common/read_file.h"
#include "tests/support/tiny_model.h"

namespace anchorage::tools {
namespace {

using ::testing::HasSubstr;

class EvalRulerTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The exit status; standard output and error are in output_.
  int Run(const std::string& environment, const std::string& flags) {
    const std::string command = environment + " " + ANCHORAGE_PROGRAM + " eval ruler --model " +
                                testing::TinyModelPath() + " --threads 2 --out " + folder_ +
                                " --tasks vt,vt --lengths 2400,2400 --samples 1 --ratios 5 " +
                                flags + " 2>&1";
    std::FILE* pipe = popen(command.c_str(), "r");
    output_.clear();
    char buffer[4096];
    while (const size_t size = std::fread(buffer, 1, sizeof(buffer), pipe)) {
      output_.append(buffer, size);
    }
    return WEXITSTATUS(pclose(pipe));
  }

  std::string Results() const { return ReadFile(folder_ + "/results.jsonl").value_or(""); }

  const std::string folder_ = ::testing::TempDir() + "/eval_ruler_test";
  std::string output_;
};

TEST_F(EvalRulerTest, GoesOnOnlyBehindAnswersOfTheSameOptions) {
  ASSERT_EQ(Run("", ""), 0) << output_;
  const std::string results = Results();
  EXPECT_EQ(std::count(results.begin(), results.end(), '\n'), 2) << "full and 5x, each once";

  // What the environment says to servers does not matter.
  EXPECT_EQ(Run("ANCHORAGE_KV=none", ""), 0) << output_;
  EXPECT_EQ(Run("ANCHORAGE_KV=snapkv", ""), 0) << output_;
  EXPECT_NE(Run("ANCHORAGE_KV=none", "--kv-profile /nowhere"), 0) << "the profile is read";

  EXPECT_NE(Run("", "--kv-floor-tokens 64"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("'compact 5x' are of another model or other options"));
  EXPECT_EQ(Results(), results);
  EXPECT_EQ(Run("", "--kv-floor-tokens 64 --label floor64"), 0) << output_;
}

TEST_F(EvalRulerTest, AsksEachMethodAtEachRatio) {
  ASSERT_EQ(Run("", "--methods compact,recent --ratios 5,10"), 0) << output_;
  for (const char* name : {"| full |", "| compact 5x |", "| compact 10x |", "| recent 10x |"}) {
    EXPECT_THAT(output_, HasSubstr(name));
  }
}

TEST_F(EvalRulerTest, RefusesWhatCannotBeCompared) {
  EXPECT_NE(Run("", "--ratios 5,10,5.0"), 0);
  EXPECT_THAT(output_, HasSubstr("--ratios: 5 stands there twice"));
  EXPECT_NE(Run("", "--methods zip"), 0);
  EXPECT_THAT(output_, HasSubstr("--methods: 'zip' is none of full, compact"));
}

}  // namespace
}  // namespace anchorage::tools
