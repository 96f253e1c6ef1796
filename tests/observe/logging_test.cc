#include "observe/logging.h"

#include <gtest/gtest.h>

#include <vector>

namespace anchorage::observe {
namespace {

class LoggingTest : public ::testing::Test {
 protected:
  LoggingTest() {
    SetLogSink([this](std::string_view line) { lines_.emplace_back(line); });
    StartLogging("router", LogLevel::kInfo);
  }
  ~LoggingTest() override {
    SetLogSink(nullptr);
    StartLogging("test", LogLevel::kInfo);
  }
  std::vector<std::string> lines_;
};

TEST_F(LoggingTest, PutsTheRequestIdBeforeTheMessage) {
  LogInfo("req-1", "took %d tokens", 7);
  LogWarning("", "no %s", std::string_view("workers"));
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_EQ(lines_[0], "info [req-1] took 7 tokens");
  EXPECT_EQ(lines_[1], "warning no workers");
}

TEST_F(LoggingTest, LeavesOutLinesBelowTheLevel) {
  LogDebug("r", "hidden");
  StartLogging("router", LogLevel::kOff);
  LogError("r", "hidden too");
  EXPECT_TRUE(lines_.empty());
}

TEST_F(LoggingTest, EscapesControlCharactersSoThatNoLineIsForged) {
  LogInfo("a\nb", "x\r\ninfo [other] y");
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0], "info [a\\nb] x\\x0d\\ninfo [other] y");
}

TEST_F(LoggingTest, ParsesEveryLevelAndNamesThemWhenOneIsUnknown) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError, LogLevel::kOff}) {
    EXPECT_EQ(*ParseLogLevel(LogLevelName(level)), level);
  }
  EXPECT_EQ(ParseLogLevel("loud").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace anchorage::observe
