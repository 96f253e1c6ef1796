#include "router/request_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace anchorage::router {
namespace {

using ::testing::StartsWith;

TEST(RequestHeadersTest, KeepsRequestIdsThatAreFitForLogs) {
  EXPECT_EQ(RequestIdOf("my-id.7"), "my-id.7");
  EXPECT_EQ(RequestIdOf(std::string(128, 'a')), std::string(128, 'a'));
  for (const std::string& bad : {std::string(), std::string(129, 'a'), std::string("a b"),
                                 std::string("a\x7f"), std::string("\xc3\xa9")}) {
    EXPECT_THAT(RequestIdOf(bad), StartsWith("req-")) << bad;
  }
  EXPECT_NE(RequestIdOf(""), RequestIdOf(""));
}

TEST(RequestHeadersTest, ReadsTheTraceIdOfAValidTraceparent) {
  const std::string id = "4bf92f3577b34da6a3ce929d0e0e4736";
  EXPECT_EQ(TraceIdOf("00-" + id + "-00f067aa0ba902b7-01"), id);
  EXPECT_EQ(TraceIdOf("cc-" + id + "-00f067aa0ba902b7-00"), id);
  EXPECT_EQ(TraceIdOf("cc-" + id + "-00f067aa0ba902b7-00-what-comes-later"), id);
}

TEST(RequestHeadersTest, IgnoresATraceparentThatIsNotValid) {
  for (const char* bad : {
           "",
           "00",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",      // no flags
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",    // too short
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",  // too long
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",  // no such version
           "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",  // capitals
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902bx-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-x1",
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
           "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
       }) {
    EXPECT_EQ(TraceIdOf(bad), "") << bad;
  }
}

TEST(RequestHeadersTest, KnowsTheTypesOfJson) {
  EXPECT_TRUE(IsJson("application/json"));
  EXPECT_TRUE(IsJson("application/json ; charset=utf-8"));
  EXPECT_TRUE(IsJson("application/problem+JSON"));
  EXPECT_FALSE(IsJson("+json"));
  EXPECT_TRUE(IsJson("Application/JSON; charset=utf-8"));
  EXPECT_TRUE(IsJson("application/vnd.api+json"));
  EXPECT_FALSE(IsJson("text/plain"));
  EXPECT_FALSE(IsJson("application/jsonp"));
}

TEST(RequestHeadersTest, ComparesTheWholeKey) {
  EXPECT_TRUE(HasBearer("Bearer sesame", "sesame"));
  for (const char* bad : {"", "sesame", "Bearer", "Bearer ", "Bearer sesam", "Bearer sesame ",
                          "Bearer Sesame", "Basic sesame"}) {
    EXPECT_FALSE(HasBearer(bad, "sesame")) << bad;
  }
}

}  // namespace
}  // namespace anchorage::router
