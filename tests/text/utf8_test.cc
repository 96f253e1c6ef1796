#include "text/utf8.h"

#include "gtest/gtest.h"

namespace anchorage::text {
namespace {

constexpr std::string_view kBad = "\xEF\xBF\xBD";

std::string Stream(std::string_view bytes, size_t piece) {
  Utf8Stream stream;
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += piece) out += stream.Push(bytes.substr(at, piece));
  return out + stream.Finish();
}

TEST(IsValidUtf8Test, FollowsTheStandardsTable) {
  for (const std::string_view good :
       {"", "a", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsValidUtf8(good));
  }
  for (const std::string_view bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xE2\x82", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(IsValidUtf8(bad));
  }
}

TEST(AppendUtf8Test, WritesEachLength) {
  std::string out;
  for (const uint32_t c : {0x24u, 0xE9u, 0x20ACu, 0x1F600u}) AppendUtf8(c, out);
  EXPECT_EQ(out, "$\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
}

TEST(DecodeLenientTest, AcceptsStructureAndReplacesTheRest) {
  EXPECT_EQ(DecodeLenient("\xED\xA0\x80", 0).value, 0xD800u);              // a surrogate
  EXPECT_EQ(DecodeLenient(std::string_view("\xC0\x80", 2), 0).value, 0u);  // overlong
  EXPECT_EQ(DecodeLenient("\xF4\x90\x80\x80", 0).value, kReplacementCharacter);
  EXPECT_EQ(DecodeLenient("\xE2\x82", 0).size, 1u);
  EXPECT_EQ(RewriteLenient("a\xE2\x82z"), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
}

TEST(Utf8StreamTest, EmitsWholeCharactersOnly) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.Push("\x98"), "");
  EXPECT_EQ(stream.Push("\x80!"), "\xF0\x9F\x98\x80!");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Utf8StreamTest, ReplacesAnUnfinishedCharacterAtTheEnd) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("x\xE2\x82"), "x");
  EXPECT_EQ(stream.Finish(), kBad);
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Utf8StreamTest, ReplacesEachMaximalPartOnce) {
  const std::string bad(kBad);
  EXPECT_EQ(Stream("\xF0\x9F\x98z", 9), bad + "z");       // three bytes of a character: one
  EXPECT_EQ(Stream("\xE0\x80\xAF", 9), bad + bad + bad);  // overlong: none continues
  EXPECT_EQ(Stream("\xED\xA0\x80", 9), bad + bad + bad);  // surrogate
  EXPECT_EQ(Stream("\xFF\xC3\xC3\xA9", 9), bad + bad + "\xC3\xA9");
}

TEST(Utf8StreamTest, CuttingMakesNoDifference) {
  const std::string_view bytes =
      "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xFF\xF0\x9F\x98\xE2\x82z\xC3\xED\xA0\x80\xF4\x8F\xBF";
  const std::string whole = Stream(bytes, bytes.size());
  EXPECT_TRUE(IsValidUtf8(whole));
  for (size_t piece = 1; piece < bytes.size(); ++piece) EXPECT_EQ(Stream(bytes, piece), whole);
}

}  // namespace
}  // namespace anchorage::text
