#include "eval/fidelity/results_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/read_file.h"

namespace anchorage::eval {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSetting = R"({"model":"m"})";

Prompt MakePrompt(int64_t index) {
  return {.kind = "prose", .index = index, .seq_len = 3, .ids = {1, 2, 3, 4, 5}};
}

PromptResult MakeResult(int64_t index) {
  PromptResult result{.kind = "prose",
                      .index = index,
                      .seq_len = 3,
                      .digest = MakePrompt(index).Digest(),
                      .commit = "c0ffee",
                      .reused = true,
                      .floor_kl = 1e-5,
                      .seconds = 2.5};
  result.candidates.push_back({.name = "compact 10x",
                               .method = "compact",
                               .asked = 10,
                               .ratio = 9.5,
                               .bytes = 1234,
                               .kl = 0.25,
                               .answer = -1.5,
                               .distance_bins = {1, 2, 3},
                               .head_cosines = {0.5f, 0.25f},
                               .logit_errors = {0.125},
                               .residual_shares = {0.75f}});
  return result;
}

class ResultsFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
    std::filesystem::remove(path_);
  }

  ResultsFile Open() {
    auto file = ResultsFile::Open(path_, kSetting);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  void Write(const std::string& content, std::ios::openmode mode = std::ios::trunc) {
    std::ofstream(path_, mode | std::ios::out) << content;
  }

  std::string path_;
};

TEST_F(ResultsFileTest, ALineSaysAllOfAResult) {
  const PromptResult result = MakeResult(4);
  const auto read = ResultFromJson(ToJsonLine(result));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, result);
  EXPECT_FALSE(ResultFromJson("{}").ok());
  EXPECT_FALSE(ResultFromJson("{\"kind\":").ok());
}

TEST_F(ResultsFileTest, FindsWhatAnEarlierRunMeasured) {
  {
    ResultsFile file = Open();
    EXPECT_EQ(file.Find(MakePrompt(1)), nullptr);
    ASSERT_TRUE(file.Append(MakeResult(1)).ok());
    ASSERT_NE(file.Find(MakePrompt(1)), nullptr);
  }
  const ResultsFile file = Open();
  ASSERT_NE(file.Find(MakePrompt(1)), nullptr);
  EXPECT_EQ(*file.Find(MakePrompt(1)), MakeResult(1));
  EXPECT_EQ(file.Find(MakePrompt(2)), nullptr);
  Prompt other = MakePrompt(1);
  other.ids.back() = 6;
  EXPECT_EQ(file.Find(other), nullptr) << "another text";
}

TEST_F(ResultsFileTest, ATornLastLineIsMeasuredAgain) {
  {
    ResultsFile file = Open();
    ASSERT_TRUE(file.Append(MakeResult(1)).ok());
  }
  const std::string whole = *ReadFile(path_);
  Write(ToJsonLine(MakeResult(2)).substr(0, 50), std::ios::app);
  {
    ResultsFile file = Open();
    EXPECT_NE(file.Find(MakePrompt(1)), nullptr);
    EXPECT_EQ(file.Find(MakePrompt(2)), nullptr);
    EXPECT_EQ(*ReadFile(path_), whole);
    ASSERT_TRUE(file.Append(MakeResult(2)).ok());
  }
  EXPECT_NE(Open().Find(MakePrompt(2)), nullptr);
}

TEST_F(ResultsFileTest, ATornFirstLineIsANewFile) {
  Write(R"({"mod)");
  ASSERT_TRUE(Open().Append(MakeResult(1)).ok());
  EXPECT_NE(Open().Find(MakePrompt(1)), nullptr);
}

TEST_F(ResultsFileTest, AFileThatIsNotOursIsLeftAsItIs) {
  for (const char* content : {R"({"a":1})", R"({"model":"m"} and more)", "{\"a\":1}\n{\"b\""}) {
    Write(content);
    const auto file = ResultsFile::Open(path_, kSetting);
    EXPECT_EQ(file.status().code(), absl::StatusCode::kFailedPrecondition) << content;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(path_));
    EXPECT_EQ(*ReadFile(path_), content);
  }
}

TEST_F(ResultsFileTest, ASettingWithoutItsEndIsANewFile) {
  for (const char* content : {"", kSetting}) {
    Write(content);
    Open();
    EXPECT_EQ(*ReadFile(path_), std::string(kSetting) + "\n");
  }
}

TEST_F(ResultsFileTest, NothingIsCutOffADamagedFile) {
  const std::string content = std::string(kSetting) + "\nrubbish\n{\"kind\"";
  Write(content);
  EXPECT_EQ(ResultsFile::Open(path_, kSetting).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(*ReadFile(path_), content);
}

TEST_F(ResultsFileTest, OtherSettingsAreRefused) {
  ASSERT_TRUE(Open().Append(MakeResult(1)).ok());
  const auto file = ResultsFile::Open(path_, R"({"model":"n"})");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("name another --out"));
}

TEST_F(ResultsFileTest, ADamagedLineInTheMiddleIsNamed) {
  ASSERT_TRUE(Open().Append(MakeResult(1)).ok());
  Write("rubbish\n", std::ios::app);
  ASSERT_FALSE(ResultsFile::Open(path_, kSetting).ok());
  const absl::Status status = ResultsFile::Open(path_, kSetting).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 3"));
}

TEST_F(ResultsFileTest, SaysThatItCannotWrite) {
  const auto file = ResultsFile::Open("/nowhere/results.jsonl", kSetting);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("cannot write /nowhere/"));
}

}  // namespace
}  // namespace anchorage::eval
