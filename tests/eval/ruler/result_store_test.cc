#include "eval/ruler/result_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace anchorage::eval::ruler {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class ResultStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  static Result MakeResult(const std::string& id, const std::string& setting) {
    Result result;
    result.id = id;
    result.setting = setting;
    result.task = "vt";
    result.target_len = 1024;
    result.prompt_fingerprint = 0xfedcba9876543210ull;
    result.setting_fingerprint = 0xfedcba9876543211ull;
    result.score = 0.6;
    result.ratio = 19.9;
    result.answer = "line\nbreak, \"quotes\" and ü";
    result.refs = {"a", "b"};
    return result;
  }

  std::string Text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  void AppendText(const std::string& text) const {
    std::ofstream(path_, std::ios::binary | std::ios::app) << text;
  }

  const std::string path_ = ::testing::TempDir() + "/result_store_test.jsonl";
};

TEST_F(ResultStoreTest, RemembersWhatItWasGiven) {
  {
    auto store = ResultStore::Open(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(store->Append(MakeResult("vt/1", "full")).ok());
    ASSERT_TRUE(store->Append(MakeResult("vt/1", "compact 20x")).ok());
  }
  const auto store = ResultStore::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(store->results(), SizeIs(2));
  const Result* const result = store->Find("vt/1", "compact 20x");
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(result->prompt_fingerprint, 0xfedcba9876543210ull);
  EXPECT_EQ(result->setting_fingerprint, 0xfedcba9876543211ull);
  EXPECT_EQ(result->answer, "line\nbreak, \"quotes\" and ü");
  EXPECT_EQ(result->refs, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(result->ratio, 19.9);
  EXPECT_EQ(store->Find("vt/2", "full"), nullptr);
  EXPECT_EQ(store->Find("vt/1", "compact 5x"), nullptr);
}

// A crash may leave any beginning of the last line.
TEST_F(ResultStoreTest, ATornLastLineIsCutOff) {
  ASSERT_TRUE(ResultStore::Open(path_)->Append(MakeResult("vt/1", "full")).ok());
  const std::string whole = Text();
  for (const size_t torn : {size_t{1}, whole.size() / 2, whole.size() - 1}) {
    AppendText(whole.substr(0, torn));
    auto store = ResultStore::Open(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_THAT(store->results(), SizeIs(1));
    EXPECT_EQ(Text(), whole) << torn;
  }
  AppendText(std::string(10, '\0'));
  auto store = ResultStore::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(store->Append(MakeResult("vt/2", "full")).ok());
  EXPECT_THAT(ResultStore::Open(path_)->results(), SizeIs(2));
}

TEST_F(ResultStoreTest, ATornFirstLineIsCutOff) {
  ASSERT_TRUE(ResultStore::Open(path_)->Append(MakeResult("vt/1", "full")).ok());
  const std::string whole = Text();
  for (const size_t torn : {size_t{1}, whole.size() / 2, whole.size() - 1}) {
    std::filesystem::remove(path_);
    AppendText(whole.substr(0, torn));
    ASSERT_TRUE(ResultStore::Open(path_).ok()) << torn;
    EXPECT_EQ(Text(), "") << torn;
  }
}

TEST_F(ResultStoreTest, FilesOfOthersStayAsTheyAre) {
  for (const std::string& text : std::vector<std::string>{
           "{\"model\":\"m\"}\n", "{\"id\":\"x\"}\n{\"id\":", "{\"id\":\"x\"}", "notes", "\n"}) {
    std::filesystem::remove(path_);
    AppendText(text);
    const absl::Status status = ResultStore::Open(path_).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << text << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + ":1: this line is no result"));
    EXPECT_EQ(Text(), text);
  }
}

TEST_F(ResultStoreTest, ABrokenLastLineIsNamedAndStays) {
  ASSERT_TRUE(ResultStore::Open(path_)->Append(MakeResult("vt/1", "full")).ok());
  AppendText("{\"id\": 3}\n");
  const std::string before = Text();
  const absl::Status status = ResultStore::Open(path_).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + ":2: this line is no result"));
  EXPECT_EQ(Text(), before);
}

TEST_F(ResultStoreTest, ALaterResultTakesThePlaceOfAnEarlier) {
  auto store = ResultStore::Open(path_);
  ASSERT_TRUE(store->Append(MakeResult("vt/1", "full")).ok());
  ASSERT_TRUE(store->Append(MakeResult("vt/2", "full")).ok());
  Result again = MakeResult("vt/1", "full");
  again.score = 1;
  ASSERT_TRUE(store->Append(again).ok());
  const auto read = ResultStore::Open(path_);
  for (const auto* each : {&store->results(), &read->results()}) {
    ASSERT_THAT(*each, SizeIs(2));
    EXPECT_EQ((*each)[0].score, 1);
  }
  EXPECT_EQ(read->Find("vt/1", "full")->score, 1);
  EXPECT_EQ(read->Find("vt/2", "full")->score, 0.6);
}

TEST_F(ResultStoreTest, ABrokenLineInTheMiddleIsNamed) {
  ASSERT_TRUE(ResultStore::Open(path_)->Append(MakeResult("vt/1", "full")).ok());
  AppendText("{\"id\": 3}\n");
  ASSERT_TRUE(std::filesystem::exists(path_));
  AppendText(Text().substr(0, Text().find('\n') + 1));
  const absl::Status status = ResultStore::Open(path_).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + ":2: this line is no result"));
}

TEST_F(ResultStoreTest, AnswersThatAreNotUtf8AreKeptAsText) {
  auto store = ResultStore::Open(path_);
  Result result = MakeResult("vt/1", "full");
  result.answer = "caf\xc3";
  ASSERT_TRUE(store->Append(result).ok());
  EXPECT_EQ(ResultStore::Open(path_)->results()[0].answer, "caf\xef\xbf\xbd");
}

TEST_F(ResultStoreTest, SaysWhereItCannotWrite) {
  const absl::Status status = ResultStore::Open("/nowhere/results.jsonl").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/results.jsonl"));
}

}  // namespace
}  // namespace anchorage::eval::ruler
