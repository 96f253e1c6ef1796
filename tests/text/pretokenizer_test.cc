#include "text/pretokenizer.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "text/byte_alphabet.h"

namespace anchorage::text {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = EndOfWord(text, begin);
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

TEST(EndOfWordTest, ASpaceBelongsToTheWordAfterIt) {
  EXPECT_THAT(Words("Hello big  world"), ElementsAre("Hello", " big", " ", " world"));
  EXPECT_THAT(Words(" !? x"), ElementsAre(" !?", " x"));
}

TEST(EndOfWordTest, OtherWhitespaceDoesNot) {
  EXPECT_THAT(Words("a\tb"), ElementsAre("a", "\t", "b"));
  EXPECT_THAT(Words("a\r\nb"), ElementsAre("a", "\r", "\n", "b"));
  EXPECT_THAT(Words("a\n b"), ElementsAre("a", "\n", " b"));
  EXPECT_THAT(Words("a\xC2\xA0 b"), ElementsAre("a", "\xC2\xA0", " b"));
}

TEST(EndOfWordTest, TrailingWhitespaceStaysTogether) {
  EXPECT_THAT(Words("a  \n"), ElementsAre("a", "  \n"));
}

TEST(EndOfWordTest, EveryNumberIsAWordAndEndsWhatIsBefore) {
  EXPECT_THAT(Words("foo  12"), ElementsAre("foo", "  ", "1", "2"));
  EXPECT_THAT(Words("a1b"), ElementsAre("a", "1", "b"));
  EXPECT_THAT(Words("\xC2\xBD\xE2\x85\xA7"), ElementsAre("\xC2\xBD", "\xE2\x85\xA7"));
}

TEST(EndOfWordTest, CutsContractions) {
  EXPECT_THAT(Words("don't they'll"), ElementsAre("don", "'t", " they", "'ll"));
  EXPECT_THAT(Words("DON'T"), ElementsAre("DON", "'", "T"));
  EXPECT_THAT(Words("'x "), ElementsAre("'", "x", " "));
  EXPECT_THAT(Words("!'s"), ElementsAre("!'", "s"));
}

TEST(EndOfWordTest, CombiningMarksAreNotLetters) {
  EXPECT_THAT(Words("e\xCC\x81x"), ElementsAre("e", "\xCC\x81", "x"));
}

TEST(ByteAlphabetTest, SpellsEveryByteBothWays) {
  EXPECT_EQ(ByteToAlphabet('A'), "A");
  EXPECT_EQ(ByteToAlphabet(' '), "\xC4\xA0");
  EXPECT_EQ(ByteToAlphabet(0), "\xC4\x80");
  EXPECT_EQ(ByteToAlphabet(0xAD), "\xC5\x83");
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(AlphabetToBytes(ByteToAlphabet(static_cast<uint8_t>(byte))),
              std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(AlphabetToBytes("a b"), std::nullopt);
  EXPECT_EQ(AlphabetToBytes("\xC5\x84"), std::nullopt);
}

}  // namespace
}  // namespace anchorage::text
