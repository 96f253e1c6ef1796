#include "router/json.h"

#include <gtest/gtest.h>

namespace anchorage::router {
namespace {

std::string Nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonTest, ReadsWhatIsJson) {
  EXPECT_EQ((*ParseJson(R"({"a": [1, -0, 1.5e3, true, null, "\u00e9\ud83d\ude00"]})"))["a"].size(),
            6u);
  EXPECT_EQ(*ParseJson("\xEF\xBB\xBF{}"), ParsedJson::object());  // a byte order mark
  EXPECT_TRUE(ParseJson(Nested(kMaxJsonDepth)).ok());
}

TEST(JsonTest, RejectsWhatIsNot) {
  for (const std::string& bad :
       {std::string(""), std::string("{"), std::string("{}x"), std::string("{'a':1}"),
        std::string("[1,]"), std::string("NaN"), std::string("01"), std::string("\"\\ud800\""),
        std::string("\"\\udc00\\ud800\""), std::string("\"\xff\""), std::string("\"\xc0\x80\""),
        std::string("[1e400]"), std::string("{}\0{}", 5), std::string("\"a\0\"", 4),
        std::string(R"({"a":1,"a":2})"), std::string(R"({"b":{"a":1,"a":1}})"),
        Nested(kMaxJsonDepth + 1), std::string(1 << 20, '[')}) {
    const auto parsed = ParseJson(bad);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << bad.substr(0, 40);
  }
}

TEST(JsonTest, TheSameKeyInTwoObjectsIsAllowed) {
  EXPECT_TRUE(ParseJson(R"([{"a":{"a":1}},{"a":2}])").ok());
}

TEST(JsonTest, DumpsInvalidBytesAsReplacementCharacters) {
  EXPECT_EQ(Dump(Json{{"a", "x\xff"}}), "{\"a\":\"x\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace anchorage::router
