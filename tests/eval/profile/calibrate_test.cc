#include "eval/profile/calibrate.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "eval/profile/layer_errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tiny_model.h"

namespace anchorage::eval {
namespace {

using ::testing::HasSubstr;

std::string Words(int count, int step) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "word" + std::to_string(i * step % 97) + " ";
  return text;
}

class CalibrateTest : public ::testing::Test {
 protected:
  CalibrateTest() : stream_(2) {
    auto model = model::Model::Load(anchorage::testing::TinyModelPath());
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    auto tokenizer = text::Tokenizer::FromGguf(model_->file());
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = std::make_unique<text::Tokenizer>(*std::move(tokenizer));
    options_.texts = {{"first", Words(400, 7)}, {"second", Words(400, 11)}};
    options_.num_retrievals = 0;
    options_.tokens = 300;
    options_.forced = 4;
    options_.journal = ::testing::TempDir() + "/journal_" + std::to_string(::getpid());
    std::filesystem::remove(options_.journal);
  }
  ~CalibrateTest() override { std::filesystem::remove(options_.journal); }

  absl::StatusOr<kv::Profile> Run() { return Calibrate(*model_, *tokenizer_, options_, stream_); }

  std::string Journal() const {
    std::ifstream file(options_.journal);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }

  std::unique_ptr<const model::Model> model_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  kernels::Stream stream_;
  CalibrationOptions options_;
};

TEST_F(CalibrateTest, EveryLayersErrorFallsAsItGetsMoreBits) {
  const auto profile = Run();
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(kv::CheckProfile(*profile, 4), "");
  const size_t rates = profile->millibits.size();
  ASSERT_EQ(profile->nanonats.size(), 4 * rates);
  for (size_t layer = 0; layer < 4; ++layer) {
    const int64_t without = profile->nanonats[layer * rates];
    const int64_t with_all = profile->nanonats[layer * rates + rates - 1];
    EXPECT_GT(without, 0) << layer;
    EXPECT_LT(with_all, without / 4) << layer;
  }
}

TEST_F(CalibrateTest, GoesOnFromItsJournal) {
  const auto whole = Run();
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string journal = Journal();

  // Cut off in the middle of the last measurement: only that one is made again.
  std::ofstream(options_.journal) << journal.substr(0, journal.size() - 40);
  const auto resumed = Run();
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(*resumed, *whole);
  EXPECT_THAT(Journal(), HasSubstr(journal.substr(0, journal.size() - 40) + "\n"));
  EXPECT_LT(Journal().size(), journal.size() * 5 / 4);

  // Lines that are none of its own do not count.
  std::ofstream(options_.journal) << "{\"settings\":5}\n[1]\nx\n" + journal;
  EXPECT_EQ(*Run(), *whole);

  // What the journal says is taken as measured.
  std::string edited = journal;
  const size_t at = edited.find("\"nats\":[") + 8;
  edited.replace(at, edited.find(',', at) - at, "1000");
  std::ofstream(options_.journal) << edited;
  const auto from_edited = Run();
  ASSERT_TRUE(from_edited.ok());
  EXPECT_NE(*from_edited, *whole);
}

TEST_F(CalibrateTest, MeasurementsOfOtherSettingsDoNotCount) {
  const auto four = Run();
  ASSERT_TRUE(four.ok());
  const std::string journal = Journal();
  options_.forced = 3;
  const auto three = Run();
  ASSERT_TRUE(three.ok());
  EXPECT_NE(*three, *four);
  EXPECT_GT(Journal().size(), journal.size() * 3 / 2);
  options_.texts[0].content = Words(400, 13);
  const auto other_text = Run();
  ASSERT_TRUE(other_text.ok());
  EXPECT_NE(*other_text, *three) << "a text is known by its content";
}

TEST_F(CalibrateTest, RetrievalsAreHiddenInTheTextsInTurn) {
  options_.texts = {{"first", Words(3000, 7)}, {"second", Words(3000, 11)}};
  options_.num_retrievals = 3;
  options_.tokens = 700;
  options_.forced = 50;
  const auto profile = Run();
  ASSERT_TRUE(profile.ok()) << profile.status();
  const std::string journal = Journal();
  const auto lines = [&](const std::string& prompt) {
    size_t count = 0;
    for (size_t at = journal.find("\"" + prompt + " ("); at != std::string::npos;
         at = journal.find("\"" + prompt + " (", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(lines("first"), 4) << journal;  // one for each layer
  EXPECT_EQ(lines("retrieval in first"), 8);
  EXPECT_EQ(lines("second"), 4);
  EXPECT_EQ(lines("retrieval in second"), 4);
}

TEST_F(CalibrateTest, NumberOfThreadsDoesNotMatter) {
  const auto two = Run();
  std::filesystem::remove(options_.journal);
  kernels::Stream one(1);
  const auto alone = Calibrate(*model_, *tokenizer_, options_, one);
  ASSERT_TRUE(two.ok() && alone.ok());
  EXPECT_EQ(*two, *alone);
}

TEST_F(CalibrateTest, SaysWhatIsWrong) {
  const auto complaint = [&] { return std::string(Run().status().message()); };
  options_.texts[1].content = Words(20, 1);
  EXPECT_THAT(complaint(), HasSubstr("the text 'second': "));
  options_.texts[1].content = Words(400, 11);
  options_.num_retrievals = 2;
  EXPECT_THAT(complaint(), HasSubstr("the text 'first': a retrieval prompt needs"));
  options_.num_retrievals = -1;
  EXPECT_THAT(complaint(), HasSubstr("-1 retrieval prompts"));
  options_.num_retrievals = 0;
  options_.texts.clear();
  EXPECT_THAT(complaint(), HasSubstr("at least one text"));
  options_.texts = {{"first", Words(400, 7)}};
  options_.tokens = 9000;
  EXPECT_THAT(complaint(), HasSubstr("context is 8192"));
  options_.tokens = 100;
  EXPECT_THAT(complaint(), HasSubstr("100 tokens is not compressed"));
}

}  // namespace
}  // namespace anchorage::eval
