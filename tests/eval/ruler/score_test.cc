#include "eval/ruler/score.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eval/ruler/families.h"

namespace anchorage::eval::ruler {
namespace {

TEST(ScoreTest, AllRefsIsTheShareThatIsFound) {
  const std::vector<std::string> refs = {"Alpha", "beta", "1234567", "delta"};
  EXPECT_EQ(Score(Metric::kAllRefs, "alpha, BETA and 12345678", refs), 0.75);
  EXPECT_EQ(Score(Metric::kAllRefs, "alphabet 123456", refs), 0.25);
  EXPECT_EQ(Score(Metric::kAllRefs, "", refs), 0);
  EXPECT_EQ(Score(Metric::kAllRefs, "anything", {}), 0);
}

TEST(ScoreTest, AnyRefIsEnough) {
  const std::vector<std::string> refs = {"Brinmoor", "Brin Moor"};
  EXPECT_EQ(Score(Metric::kAnyRef, "It is brin moor.", refs), 1);
  EXPECT_EQ(Score(Metric::kAnyRef, "It is Brinham.", refs), 0);
}

TEST(ScoreTest, APasskeyIsExactUpToWhiteSpace) {
  const std::vector<std::string> refs = {"123456"};
  EXPECT_EQ(Score(Metric::kPasskey, " 123456.", refs), 1);
  EXPECT_EQ(Score(Metric::kPasskey, "12 34\n56, remember it, 999", refs), 1);
  EXPECT_EQ(Score(Metric::kPasskey, "the key: 123456", refs), 1);
  EXPECT_EQ(Score(Metric::kPasskey, "1234567", refs), 0);
  EXPECT_EQ(Score(Metric::kPasskey, "12345", refs), 0);
  EXPECT_EQ(Score(Metric::kPasskey, "9 or 123456", refs), 0);
  EXPECT_EQ(Score(Metric::kPasskey, "no digits", refs), 0);
}

TEST(ScoreTest, DigitPrefixCountsFromTheStart) {
  EXPECT_EQ(DigitPrefix("1234 99", "123456"), 4);
  EXPECT_EQ(DigitPrefix("923456", "123456"), 0);
  EXPECT_EQ(DigitPrefix("12345678", "123456"), 6);
  EXPECT_EQ(DigitPrefix("", "123456"), 0);
}

// A perfect answer to one sample is worth nothing for another, or the score would measure how
// talkative a model is.
TEST(ScoreTest, AnAnswerToAnotherSampleScoresZero) {
  for (const Task& task : AllTasks()) {
    const Draft one = task.write({1, "one", 2048, 30, 0.5});
    const Draft other = task.write({1, "other", 2048, 30, 0.5});
    std::string answer;
    for (const std::string& ref : one.refs) answer += ref + " ";
    EXPECT_EQ(Score(task.metric, answer, one.refs), 1) << task.name;
    EXPECT_EQ(Score(task.metric, answer, other.refs), 0) << task.name;
  }
}

}  // namespace
}  // namespace anchorage::eval::ruler
