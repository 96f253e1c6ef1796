#include "text/stop_matcher.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace anchorage::text {
namespace {

using Stops = std::vector<std::string>;

std::string Stream(const Stops& stops, std::string_view text, size_t piece) {
  StopMatcher matcher(stops);
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece) out += matcher.Push(text.substr(at, piece));
  return out + matcher.Finish();
}

// The definition, by obvious loops: cut before the stop string that is completed first, the longest
// of those completed together.
std::string Oracle(const Stops& stops, std::string_view text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (!stop.empty() && text.substr(0, end).ends_with(stop)) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return std::string(text.substr(0, end - longest));
  }
  return std::string(text);
}

TEST(StopMatcherTest, PassesEverythingWithoutStops) {
  StopMatcher matcher(Stops{});
  EXPECT_EQ(matcher.Push("anything"), "anything");
  EXPECT_EQ(matcher.Finish(), "");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcherTest, HoldsBackExactlyTheLongestPossibleBeginning) {
  StopMatcher matcher(Stops{"END", "ENTER"});
  EXPECT_EQ(matcher.Push("the E"), "the ");
  EXPECT_EQ(matcher.Push("N"), "");
  EXPECT_EQ(matcher.Push("E"), "EN");  // the last E may begin one again
  EXPECT_EQ(matcher.Push("x"), "Ex");
  EXPECT_EQ(matcher.Push("EN"), "");
  EXPECT_EQ(matcher.Finish(), "EN");
}

TEST(StopMatcherTest, CutsAtTheMatchAndThenShowsNothing) {
  StopMatcher matcher(Stops{"no", "STOP"});
  EXPECT_EQ(matcher.Push("go on ST"), "go on ");
  EXPECT_EQ(matcher.Push("OP and more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.matched(), 1u);
  EXPECT_EQ(matcher.Push("more"), "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcherTest, FindsAStopInsideTheBeginningOfAnother) {
  StopMatcher matcher(Stops{"abcd", "bc"});
  EXPECT_EQ(matcher.Push("xabc"), "xa");
  EXPECT_EQ(matcher.matched(), 1u);
}

TEST(StopMatcherTest, TakesTheLongerOfTwoCompletedTogether) {
  StopMatcher matcher(Stops{"d", "abcd"});
  EXPECT_EQ(matcher.Push("xabcd"), "x");
  EXPECT_EQ(matcher.matched(), 1u);
}

TEST(StopMatcherTest, FollowsOverlappingBeginnings) {
  EXPECT_EQ(Stream({"aab"}, "aaab", 1), "a");
  EXPECT_EQ(Stream({"\n\nUser:"}, "hi\n\n\nUser: x", 1), "hi\n");
}

TEST(StopMatcherTest, IgnoresEmptyStopsAndKeepsTheFirstOfDuplicates) {
  StopMatcher matcher(Stops{"", "x", "x"});
  EXPECT_EQ(matcher.Push("abx"), "ab");
  EXPECT_EQ(matcher.matched(), 1u);
}

TEST(StopMatcherTest, KeepsCharactersWhole) {
  StopMatcher matcher(Stops{"\xC3\xA9!"});
  EXPECT_EQ(matcher.Push("caf\xC3\xA9"), "caf");
  EXPECT_EQ(matcher.Push("s"), "\xC3\xA9s");
}

TEST(StopMatcherTest, AgreesWithTheDefinitionHoweverCut) {
  std::mt19937 random(7);
  const auto word = [&](size_t max_size) {
    std::string text(random() % max_size + 1, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    Stops stops(random() % 4);
    for (std::string& stop : stops) stop = word(6);
    const std::string text = word(24);
    const std::string expected = Oracle(stops, text);
    for (const size_t piece : {1, 2, 3, 24})
      ASSERT_EQ(Stream(stops, text, piece), expected) << text;
    stopped += expected != text;
  }
  EXPECT_GT(stopped, 500);
}

TEST(StopMatcherTest, IsLinearInBadCases) {
  const Stops stops = {std::string(5000, 'a') + "b"};
  const std::string text(1000000, 'a');
  EXPECT_EQ(Stream(stops, text, 3), text);
}

}  // namespace
}  // namespace anchorage::text
