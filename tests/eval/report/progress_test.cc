#include "eval/report/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace anchorage::eval {
namespace {

using ::testing::HasSubstr;

TEST(ProgressTest, DurationsAreShort) {
  EXPECT_EQ(ShortDuration(0.4), "0s");
  EXPECT_EQ(ShortDuration(59), "59s");
  EXPECT_EQ(ShortDuration(100), "1m40s");
  EXPECT_EQ(ShortDuration(7500), "2h05m");
}

TEST(ProgressTest, LineTellsWhatIsLeft) {
  EXPECT_EQ(ProgressLine("eval", 0.25, 0, 100, "vt"),
            "eval [#####---------------] 25 %, 1m40s gone, 5m00s left, vt");
  EXPECT_EQ(ProgressLine("eval", 0, 0, 0, ""), "eval [--------------------] 0 %, 0s gone");
  EXPECT_EQ(ProgressLine("eval", 2, 0, 9, ""),
            "eval [####################] 100 %, 9s gone, 0s left");
}

TEST(ProgressTest, WhatWasDoneBeforeTookNoTime) {
  EXPECT_EQ(ProgressLine("eval", 0.25, 0.5, 60, ""),
            "eval [###############-----] 75 %, 1m00s gone, 1m00s left");
}

TEST(ProgressTest, WithoutATerminalItSpeaksNowAndThen) {
  FakeClock clock;
  std::FILE* file = std::tmpfile();
  {
    Progress progress("eval", 100, clock, file);
    for (int i = 0; i < 100; ++i) {
      clock.AdvanceNs(1'000'000'000);
      progress.Advance(1);
    }
  }
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
  EXPECT_THAT(text, HasSubstr("30 %, 30s gone, 1m10s left"));
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

}  // namespace
}  // namespace anchorage::eval
