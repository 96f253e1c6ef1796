#include "eval/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "files/gguf.h"
#include "tests/support/tiny_model.h"

namespace anchorage::eval {
namespace {

using ::testing::HasSubstr;

class PromptsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto file = files::GgufFile::Open(testing::TinyModelPath());
    ASSERT_TRUE(file.ok()) << file.status();
    auto tokenizer = text::Tokenizer::FromGguf(*file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = new text::Tokenizer(*std::move(tokenizer));
  }
  static void TearDownTestSuite() { delete tokenizer_; }

  // Texts whose lines occur once.
  static std::vector<std::string> NumberedTexts(int count) {
    std::vector<std::string> texts;
    for (int text = 0; text < count; ++text) {
      std::string& lines = texts.emplace_back();
      for (int line = 0; line < 10; ++line) {
        lines += "<" + std::to_string(1000 * text + line) + ">\n";
      }
    }
    return texts;
  }

  static PromptSource Source(const std::vector<std::string>& texts, uint64_t seed = 1) {
    auto source = PromptSource::Create(*tokenizer_, texts, seed);
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }

  static std::string TextOf(const Prompt& prompt) { return tokenizer_->Decode(prompt.ids, false); }

  // The whole lines of a passage.
  static std::vector<std::string> Lines(const Prompt& prompt) {
    std::vector<std::string> lines;
    const std::string text = TextOf(prompt);
    for (size_t begin = text.find('<'); begin != std::string::npos;) {
      const size_t end = text.find('>', begin);
      if (end == std::string::npos) break;
      lines.push_back(text.substr(begin, end - begin));
      begin = text.find('<', end);
    }
    return lines;
  }

  static PromptRequest Request() {
    return {.kinds = {"prose", "code", "retrieval"},
            .lengths = {900},
            .count = 2,
            .forced = 250,
            .context = 8192,
            .seed = 7,
            .root = "."};
  }

  static text::Tokenizer* tokenizer_;
};
text::Tokenizer* PromptsTest::tokenizer_ = nullptr;

TEST_F(PromptsTest, PassagesAreDisjointWhileTheTextsLast) {
  const PromptSource source = Source(NumberedTexts(40));
  std::set<std::string> seen;
  int passages = 0;
  for (int64_t index = 0; index < 50; ++index) {
    const auto prompt = source.Passage("text", index, {.seq_len = 200, .forced = 20});
    ASSERT_TRUE(prompt.ok()) << prompt.status();
    EXPECT_EQ(std::ssize(prompt->ids), 221);
    if (prompt->reused) break;
    ++passages;
    for (const std::string& line : Lines(*prompt)) {
      EXPECT_TRUE(seen.insert(line).second) << line << " again in passage " << index;
    }
  }
  EXPECT_GT(passages, 3);
  EXPECT_GT(seen.size(), 100u);
}

TEST_F(PromptsTest, ASecondRoundHasAnotherOrderAndSaysSo) {
  const PromptSource source = Source(NumberedTexts(12));
  const PromptSize size{.seq_len = 600, .forced = 20};
  const auto first = source.Passage("text", 0, size);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(first->reused);
  for (int64_t index = 1; index < 9; ++index) {
    const auto later = source.Passage("text", index, size);
    ASSERT_TRUE(later.ok());
    EXPECT_NE(later->ids, first->ids);
    EXPECT_TRUE(index < 5 || later->reused);
  }
}

TEST_F(PromptsTest, SeedAndIndexDecideEverything) {
  const std::vector<std::string> texts = NumberedTexts(40);
  const PromptSize size{.seq_len = 900, .forced = 100};
  const auto make = [&](uint64_t seed, int64_t index) {
    return Source(texts, seed).Retrieval(index, size)->Digest();
  };
  EXPECT_EQ(make(1, 0), make(1, 0));
  EXPECT_NE(make(1, 0), make(1, 1));
  EXPECT_NE(make(1, 0), make(2, 0));
}

TEST_F(PromptsTest, TheAnswerOfARetrievalStandsInItsPrompt) {
  const PromptSource source = Source(NumberedTexts(60));
  const auto prompt = source.Retrieval(0, {.seq_len = 1000, .forced = 250});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  ASSERT_EQ(std::ssize(prompt->ids), 1251);
  ASSERT_GE(prompt->answers.size(), 2u);
  const std::string asked =
      tokenizer_->Decode({prompt->ids.data(), static_cast<size_t>(prompt->seq_len)}, false);
  EXPECT_THAT(asked.substr(asked.size() - 40), HasSubstr("The access code of the"));
  std::set<std::string> codes;
  for (const AnswerSpan& answer : prompt->answers) {
    ASSERT_LT(answer.begin, answer.end);
    ASSERT_LE(answer.end, std::ssize(prompt->ids));
    const std::string code = tokenizer_->Decode(
        {prompt->ids.data() + answer.begin, prompt->ids.data() + answer.end}, false);
    EXPECT_EQ(code.size(), 8u) << code;  // a space and seven digits
    EXPECT_THAT(asked, HasSubstr("is" + code + "."));
    EXPECT_TRUE(codes.insert(code).second);
  }
  // The first answer follows the token that is fed first.
  EXPECT_EQ(prompt->answers.front().begin, prompt->seq_len + 1);
}

TEST_F(PromptsTest, OwnTextsGiveAllThreeKinds) {
  const auto prompts = MakePrompts(Request(), *tokenizer_);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  ASSERT_EQ(prompts->size(), 6u);
  std::set<uint64_t> digests;
  for (const Prompt& prompt : *prompts) {
    EXPECT_EQ(std::ssize(prompt.ids), 1151);
    EXPECT_TRUE(digests.insert(prompt.Digest()).second);
    EXPECT_EQ(prompt.answers.empty(), prompt.kind != "retrieval");
  }
}

TEST_F(PromptsTest, AFileOfTheUsersIsTextAndHaystack) {
  PromptRequest request = Request();
  request.kinds = {"text", "retrieval"};
  request.text_path = ::testing::TempDir() + "/users_text.txt";
  std::ofstream(request.text_path) << [] {
    std::string text;
    for (int i = 0; i < 600; ++i) text += "Paragraph <" + std::to_string(i) + ">.\n\n";
    return text;
  }();
  const auto prompts = MakePrompts(request, *tokenizer_);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  for (const Prompt& prompt : *prompts) EXPECT_THAT(TextOf(prompt), HasSubstr("Paragraph <"));
}

TEST_F(PromptsTest, RefusesWithARemedy) {
  const auto refused = [](const PromptRequest& request, const std::string& reason) {
    const auto prompts = MakePrompts(request, *tokenizer_);
    EXPECT_FALSE(prompts.ok());
    EXPECT_THAT(std::string(prompts.status().message()), HasSubstr(reason));
  };
  PromptRequest request = Request();
  request.kinds = {"verse"};
  refused(request, "'verse' is not prose, code, retrieval or text");
  request = Request();
  request.kinds = {"text"};
  refused(request, "name it with --text");
  request = Request();
  request.lengths = {100'000'000};
  request.context = 1'000'000'000;
  refused(request, "give longer texts");
  request = Request();
  request.lengths = {50};
  request.kinds = {"retrieval"};
  refused(request, "ask for longer ones");
  request = Request();
  request.forced = 2;
  request.kinds = {"retrieval"};
  refused(request, "too few for an answer: force ");
  request = Request();
  request.root = "/nowhere";
  refused(request, "run from the top folder");
  request = Request();
  request.count = 0;
  refused(request, "--prompts");
  request = Request();
  request.kinds = {"prose", "code", "prose"};
  refused(request, "--kinds: 'prose' stands there twice");
  request = Request();
  request.lengths = {256, 256};
  refused(request, "--lengths: 256 stands there twice");
  request = Request();
  request.kinds = {"prose", "code"};
  request.text_path = "mine.txt";
  refused(request, "--text: no prompt is taken from mine.txt");
}

TEST_F(PromptsTest, WhatDoesNotFitTheContextIsRefusedBeforeTheTextsAreRead) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  for (const auto& [length, forced] : {std::pair<int64_t, int64_t>{900, kLargest},
                                       {kLargest, 250},
                                       {kLargest, kLargest},
                                       {900, 7293}}) {
    PromptRequest request = Request();
    request.lengths = {length};
    request.forced = forced;
    request.root = "/nowhere";
    const auto prompts = MakePrompts(request, *tokenizer_);
    EXPECT_THAT(std::string(prompts.status().message()),
                HasSubstr("the model's context is 8192; ask for shorter --lengths or --forced"));
  }
}

TEST_F(PromptsTest, RetrievalSharesNoTextWithPassagesWhileTheTextsLast) {
  const PromptSource source = Source(NumberedTexts(40));
  const PromptSize size{.seq_len = 600, .forced = 100};
  std::set<std::string> seen;
  for (int64_t index = 0; index < 2; ++index) {
    for (const auto& prompt :
         {source.Passage("prose", index, size), source.Retrieval(index, size)}) {
      ASSERT_TRUE(prompt.ok()) << prompt.status();
      ASSERT_FALSE(prompt->reused);
      for (const std::string& line : Lines(*prompt)) {
        EXPECT_TRUE(seen.insert(line).second) << line << " again in " << prompt->kind << index;
      }
    }
  }
  EXPECT_GT(seen.size(), 50u);
}

// Where the lines stand in a pile of texts that keeps its order, whatever the facts are.
TEST_F(PromptsTest, HaystacksAreDisjointWhateverTheirFacts) {
  std::string lines;
  for (int line = 0; line < 3000; ++line) lines += "<" + std::to_string(line) + ">\n";
  const PromptSource source = Source({lines});
  const PromptSize size{.seq_len = 700, .forced = 100};
  for (int64_t index = 0; index < 10; ++index) {
    const auto hay = source.Retrieval(index, size);
    const auto passage = source.Passage("text", index, size);  // one text has one order
    ASSERT_TRUE(hay.ok() && passage.ok()) << hay.status();
    ASSERT_FALSE(hay->reused);
    EXPECT_EQ(Lines(*hay).front(), Lines(*passage).front()) << index;
  }
}

TEST_F(PromptsTest, EachCollectionHasAnOrderOfItsOwn) {
  // As many paragraphs in either: with one order for both, the same one would come first.
  PromptRequest request = Request();
  request.kinds = {"prose", "code"};
  request.lengths = {100};
  request.forced = 20;
  const std::string root = ::testing::TempDir() + "/one_order";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root + "/kernels");
  for (int file = 100; file < 160; ++file) {
    std::string text;
    for (int line = 0; line < 20; ++line) text += "// <" + std::to_string(file) + ">\n";
    std::ofstream(root + "/kernels/f" + std::to_string(file) + ".cc") << text;
  }
  request.root = root;
  const auto prompts = MakePrompts(request, *tokenizer_);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  ASSERT_EQ(prompts->size(), 4u);
  EXPECT_NE(Lines((*prompts)[0]).front(), Lines((*prompts)[2]).front());
}

}  // namespace
}  // namespace anchorage::eval
