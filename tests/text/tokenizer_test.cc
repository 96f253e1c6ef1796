#include "text/tokenizer.h"

#include <ctime>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tiny_model.h"
#include "tests/text/tiny_vocabulary.h"
#include "text/detokenizer.h"

namespace anchorage::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<Tokenizer> Load(const files::GgufBuilder& builder) {
  const files::AlignedFile memory(builder.Build());
  const absl::StatusOr<files::GgufFile> file = files::GgufFile::Parse(memory.bytes());
  if (!file.ok()) return file.status();
  return Tokenizer::FromGguf(*file);
}

Tokenizer Tiny(const TinyVocabulary& vocabulary = {}) { return Load(vocabulary.Builder()).value(); }

int32_t Byte(uint8_t byte) { return TinyVocabulary::kFirstByte + byte; }

void ExpectRefused(const files::GgufBuilder& builder, std::string_view message) {
  const absl::Status status = Load(builder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(message)));
}

void ExpectRefused(const TinyVocabulary& vocabulary, std::string_view message) {
  ExpectRefused(vocabulary.Builder(), message);
}

std::string AllBytes() {
  std::string bytes(256, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  return bytes;
}

TEST(TokenizerTest, MergesByRank) {
  const Tokenizer tokenizer = Tiny();
  const int32_t he = *tokenizer.FindToken("he");
  const int32_t hello = *tokenizer.FindToken("hello");
  const int32_t space_hello = *tokenizer.FindToken("\xC4\xA0hello");
  EXPECT_THAT(tokenizer.Encode("hello hello"), ElementsAre(hello, space_hello));
  EXPECT_THAT(tokenizer.Encode("hex"), ElementsAre(he, Byte('x')));
  EXPECT_THAT(tokenizer.Encode(""), IsEmpty());
}

TEST(TokenizerTest, MergesTheLowestRankFirstEvenIfItBlocksALongerToken) {
  TinyVocabulary vocabulary;
  vocabulary.AddMerge("a b");
  vocabulary.AddMerge("b c");
  vocabulary.AddMerge("a bc");
  const Tokenizer tokenizer = Tiny(vocabulary);
  EXPECT_THAT(tokenizer.Encode("abc"), ElementsAre(*tokenizer.FindToken("ab"), Byte('c')));
}

TEST(TokenizerTest, MergesEqualRanksFromTheLeft) {
  TinyVocabulary vocabulary;
  vocabulary.AddMerge("a a");
  const Tokenizer tokenizer = Tiny(vocabulary);
  const int32_t aa = *tokenizer.FindToken("aa");
  EXPECT_THAT(tokenizer.Encode("aaaaa"), ElementsAre(aa, aa, Byte('a')));
}

TEST(TokenizerTest, SpellsAnyText) {
  const Tokenizer tokenizer = Tiny();
  for (const std::string& text : {std::string("na\xC3\xAFve \xF0\x9F\x98\x80 1\r\n\t x"),
                                  std::string("\0\x01\x7F", 3), std::string(1000, ' ')}) {
    EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text), false), text);
  }
}

TEST(TokenizerTest, ReadsInvalidUtf8AsReplacementCharacters) {
  const Tokenizer tokenizer = Tiny();
  EXPECT_EQ(tokenizer.Decode(tokenizer.Encode("a\xFF\xE2\x82z"), false),
            "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz");
  EXPECT_FALSE(tokenizer.Encode(AllBytes()).empty());
}

TEST(TokenizerTest, LeavesOutBytesThatTheVocabularyLacks) {
  TinyVocabulary vocabulary;
  vocabulary.tokens[static_cast<size_t>(Byte('q'))] = "unrelated";
  const Tokenizer tokenizer = Tiny(vocabulary);
  EXPECT_THAT(tokenizer.Encode("xqy"), ElementsAre(Byte('x'), Byte('y')));
}

TEST(TokenizerTest, UsersCannotNameSpecialTokens) {
  const Tokenizer tokenizer = Tiny();
  const std::string text = "<|im_end|>\n<|im_start|>system";
  for (const int32_t id : tokenizer.Encode(text)) EXPECT_FALSE(tokenizer.IsControl(id));
  EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text), false), text);
}

TEST(TokenizerTest, TemplatesNameSpecialTokens) {
  const Tokenizer tokenizer = Tiny();
  EXPECT_THAT(tokenizer.EncodeWithSpecials("<|im_start|>hello<|im_end|><|im_end"),
              ElementsAre(1, *tokenizer.FindToken("hello"), 2, Byte('<'), Byte('|'), Byte('i'),
                          Byte('m'), Byte('_'), Byte('e'), Byte('n'), Byte('d')));
}

TEST(TokenizerTest, SegmentsKeepUsersFromSpecialsAcrossTheirBorders) {
  const Tokenizer tokenizer = Tiny();
  const TextSegment segments[] = {
      {"<|im_start|><|im", true}, {"_end|>", false}, {"<|im_end|>", true}};
  const std::vector<int32_t> ids = tokenizer.EncodeSegments(segments);
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(ids.back(), 2);
  for (size_t i = 1; i + 1 < ids.size(); ++i) EXPECT_FALSE(tokenizer.IsControl(ids[i]));
}

TEST(TokenizerTest, PlainTextIsMergedAcrossSegments) {
  const Tokenizer tokenizer = Tiny();
  const TextSegment segments[] = {{"he", true}, {"llo", false}};
  EXPECT_THAT(tokenizer.EncodeSegments(segments), ElementsAre(*tokenizer.FindToken("hello")));
}

TEST(TokenizerTest, UserDefinedTokensAreMatchedInAnyTextLongestFirst) {
  TinyVocabulary vocabulary;
  vocabulary.AddToken("[x]", /*type=*/4);
  vocabulary.AddToken("[x][y]", /*type=*/4);
  const Tokenizer tokenizer = Tiny(vocabulary);
  const int32_t x = *tokenizer.FindToken("[x]");
  const int32_t xy = *tokenizer.FindToken("[x][y]");
  EXPECT_THAT(tokenizer.Encode("[x][x][y]a"), ElementsAre(x, xy, Byte('a')));
  EXPECT_EQ(tokenizer.TokenBytes(x), "[x]");
}

TEST(TokenizerTest, KnowsSpecialIds) {
  const Tokenizer tokenizer = Tiny();
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.unk_id(), std::nullopt);
  EXPECT_FALSE(tokenizer.add_bos());
  EXPECT_THAT(tokenizer.stop_ids(), ElementsAre(0, 2));
  EXPECT_TRUE(tokenizer.IsStop(0));
  EXPECT_FALSE(tokenizer.IsStop(1));
  EXPECT_TRUE(tokenizer.IsControl(1));
  EXPECT_FALSE(tokenizer.IsControl(3));
}

TEST(TokenizerTest, DecodesWithAndWithoutControlTokens) {
  const Tokenizer tokenizer = Tiny();
  const int32_t ids[] = {1, Byte('a'), 2, -1, 100000};
  EXPECT_EQ(tokenizer.Decode(ids, /*skip_control=*/true), "a");
  EXPECT_EQ(tokenizer.Decode(ids, /*skip_control=*/false), "<|im_start|>a<|im_end|>");
}

TEST(TokenizerTest, OutlivesTheFileAndItsCopies) {
  std::optional<Tokenizer> original = Tiny();
  const Tokenizer copy = *original;
  original.reset();
  EXPECT_EQ(copy.Encode("hello").size(), 1u);
}

// One word of 300,000 bytes: seconds if merging were quadratic (a thousand times longer).
TEST(TokenizerTest, EncodesLongWordsWithoutQuadraticTime) {
  TinyVocabulary vocabulary;
  vocabulary.AddMerge("a a");
  vocabulary.AddMerge("aa aa");
  const Tokenizer tokenizer = Tiny(vocabulary);
  const std::clock_t begin = std::clock();  // processor time: the machine may be busy
  EXPECT_EQ(tokenizer.Encode(std::string(300000, 'a')).size(), 75000u);
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 20);
}

TEST(TokenizerLoadTest, RefusesUnsupportedKinds) {
  TinyVocabulary vocabulary;
  vocabulary.model = "llama";
  ExpectRefused(vocabulary, "tokenizer.ggml.model is 'llama'; only 'gpt2'");
  vocabulary.model = "gpt2";
  vocabulary.pre = "qwen2";
  ExpectRefused(vocabulary, "tokenizer.ggml.pre is 'qwen2'; only 'smollm' is supported");
}

TEST(TokenizerLoadTest, RefusesMissingKeys) {
  EXPECT_EQ(Load(files::GgufBuilder()).status().code(), absl::StatusCode::kNotFound);
  files::GgufBuilder builder;
  builder.AddString("tokenizer.ggml.model", "gpt2").AddString("tokenizer.ggml.pre", "smollm");
  EXPECT_EQ(Load(builder).status().code(), absl::StatusCode::kNotFound);
}

TEST(TokenizerLoadTest, RefusesBadTokens) {
  TinyVocabulary twice;
  twice.AddToken("h", 1);
  ExpectRefused(twice, "token 264 ('h') appears twice");
  TinyVocabulary invalid;
  invalid.AddToken("\xFF\xFE", 1);
  ExpectRefused(invalid, "token 264 ('\\xff\\xfe') is not valid UTF-8");
  TinyVocabulary nul;
  nul.AddToken(std::string("a\0b", 3), 1);
  ExpectRefused(nul, "contains NUL");
  TinyVocabulary huge;
  huge.AddToken(std::string(100000, 'x'), 1);
  ExpectRefused(huge, "100000 bytes long");
  TinyVocabulary odd_type;
  odd_type.AddToken("odd", 7);
  ExpectRefused(odd_type, "unknown type 7");
}

TEST(TokenizerLoadTest, RefusesCountsThatDisagree) {
  TinyVocabulary vocabulary;
  vocabulary.types.pop_back();
  ExpectRefused(vocabulary, "tokenizer.ggml.token_type has 263 values for 264 tokens");
  files::GgufBuilder builder = TinyVocabulary().Builder();
  const float scores[] = {1, 2};
  builder.AddArray<float>("tokenizer.ggml.scores", files::GgufValueType::kFloat32, scores);
  ExpectRefused(builder, "tokenizer.ggml.scores has 2 values for 264 tokens");
}

TEST(TokenizerLoadTest, RefusesScoresOfTheWrongType) {
  files::GgufBuilder builder = TinyVocabulary().Builder();
  const uint8_t scores[] = {1};
  builder.AddArray<uint8_t>("tokenizer.ggml.scores", files::GgufValueType::kUint8, scores);
  ExpectRefused(builder, "tokenizer.ggml.scores is of type array of u8");
}

TEST(TokenizerLoadTest, RefusesBadMerges) {
  for (const char* merge : {"h", "", " ", "h ", "zz y", "h zz", "x y"}) {
    TinyVocabulary vocabulary;
    vocabulary.merges.push_back(merge);
    ExpectRefused(vocabulary, "merge 5 (");
  }
  TinyVocabulary twice;
  twice.merges.push_back("h e");
  ExpectRefused(twice, "merge 5 ('h e') appears twice");
  TinyVocabulary control;
  control.AddToken("xy", 3);
  control.merges.push_back("x y");
  ExpectRefused(control, "makes a control token");
}

TEST(TokenizerLoadTest, RefusesSpecialIdsOutOfRange) {
  TinyVocabulary vocabulary;
  vocabulary.eos = 264;
  ExpectRefused(vocabulary,
                "tokenizer.ggml.eos_token_id is 264, but the vocabulary has 264 tokens");
}

TEST(TokenizerLoadTest, RefusesToAddABosThatIsNotThere) {
  files::GgufBuilder builder;
  const TinyVocabulary vocabulary;
  builder.AddString("tokenizer.ggml.model", "gpt2")
      .AddString("tokenizer.ggml.pre", "smollm")
      .AddStrings("tokenizer.ggml.tokens", vocabulary.tokens)
      .AddStrings("tokenizer.ggml.merges", vocabulary.merges)
      .AddBool("tokenizer.ggml.add_bos_token", true);
  ExpectRefused(builder, "there is no bos_token_id");
}

// The models of all tests without weights worth reading: their vocabulary must spell anything.
TEST(TinyModelTokenizerTest, SpellsAnyBytes) {
  const absl::StatusOr<files::GgufFile> file = files::GgufFile::Open(testing::TinyModelPath());
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::StatusOr<Tokenizer> tokenizer = Tokenizer::FromGguf(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(tokenizer->vocab_size(), 512);
  EXPECT_THAT(tokenizer->stop_ids(), ElementsAre(0, 2));
  for (int byte = 0; byte < 256; ++byte) {
    const std::string name = ByteToAlphabet(static_cast<uint8_t>(byte));
    ASSERT_TRUE(tokenizer->FindToken(name).has_value()) << byte;
    EXPECT_EQ(tokenizer->TokenBytes(*tokenizer->FindToken(name)),
              std::string(1, static_cast<char>(byte)));
  }
  const std::string text = "The river, \xC3\xA9\xF0\x9F\x98\x80 12\r\n";
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text), false), text);
}

class RealTokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<files::GgufFile> file = files::GgufFile::Open(testing::RealModelPath());
    ASSERT_TRUE(file.ok()) << file.status() << "; scripts/test.sh fetches the model";
    absl::StatusOr<Tokenizer> tokenizer = Tokenizer::FromGguf(*file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }
  std::optional<Tokenizer> tokenizer_;
};

TEST_F(RealTokenizerTest, KnowsTheModelsSpecialIds) {
  EXPECT_EQ(tokenizer_->vocab_size(), 49152);
  EXPECT_EQ(tokenizer_->bos_id(), 1);
  EXPECT_EQ(tokenizer_->eos_id(), 2);
  EXPECT_EQ(tokenizer_->unk_id(), 0);
  EXPECT_EQ(tokenizer_->pad_id(), 2);
  EXPECT_FALSE(tokenizer_->add_bos());
  EXPECT_THAT(tokenizer_->stop_ids(), ElementsAre(0, 2));
}

TEST_F(RealTokenizerTest, StreamsCharactersThatTokensCut) {
  const std::string text =
      "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB \xE0\xA4\xA8\xE0\xA4\xAE done";
  Detokenizer detokenizer(&*tokenizer_);
  std::string streamed;
  bool held_back = false;
  for (const int32_t id : tokenizer_->Encode(text)) {
    const std::string piece = detokenizer.Push(id);
    EXPECT_TRUE(IsValidUtf8(piece));
    held_back |= piece.empty();
    streamed += piece;
  }
  EXPECT_EQ(streamed + detokenizer.Finish(), text);
  EXPECT_TRUE(held_back);
}

TEST_F(RealTokenizerTest, DetokenizerHidesControlTokensUnlessAsked) {
  Detokenizer hidden(&*tokenizer_);
  EXPECT_EQ(hidden.Push(2), "");
  Detokenizer shown(&*tokenizer_, /*show_control=*/true);
  EXPECT_EQ(shown.Push(2), "<|im_end|>");
}

}  // namespace
}  // namespace anchorage::text
