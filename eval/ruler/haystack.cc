#include "eval/ruler/haystack.h"

#include <iterator>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "eval/ruler/words.h"

namespace anchorage::eval::ruler {
namespace {

constexpr std::string_view kTimes[] = {"On most mornings",       "Before the rain came",
                                       "Late in the evening",    "After the harvest",
                                       "Every other week",       "Once the bells had rung",
                                       "During the long winter", "At the end of the day"};
constexpr std::string_view kManners[] = {"without a word",   "with great care",       "in a hurry",
                                         "for a fair price", "by lamplight",          "as always",
                                         "with some doubt",  "to everyone's surprise"};
constexpr std::string_view kFiller[] = {"The river is wide.", "The hill is steep.",
                                        "The road is long.", "We walk on.",
                                        "Then we come home again."};

// "a lamp", "an old lamp"
std::string WithArticle(std::string_view words) {
  const bool vowel = std::string_view("aeiou").find(words.front()) != std::string_view::npos;
  return absl::StrCat(vowel ? "an " : "a ", std::string(words));
}

std::string Described(Random& random, std::span<const std::string_view> nouns) {
  std::string words(random.Pick(Adjectives()));
  words += " ";
  words += random.Pick(nouns);
  return words;
}

std::string Sentence(Random& random) {
  const std::string who(random.Pick(People()));
  const std::string other(random.Pick(People()));
  const std::string verb(random.Pick(Verbs()));
  const std::string then(random.Pick(Verbs()));
  const std::string what = Described(random, Things());
  const std::string thing(random.Pick(Things()));
  const std::string where = Described(random, Places());
  const std::string place(random.Pick(Places()));
  const std::string when(random.Pick(kTimes));
  const std::string how(random.Pick(kManners));
  switch (random.Below(8)) {
    case 0:
      return absl::StrCat("The ", who, " ", verb, " the ", what, " near the ", place, ".");
    case 1:
      return absl::StrCat(when, ", the ", who, " ", verb, " ", WithArticle(thing), " ", how, ".");
    case 2:
      return absl::StrCat("Nobody in the ", where, " knew why the ", who, " ", verb, " the ", thing,
                          ".");
    case 3:
      return absl::StrCat("The ", who, " and the ", other, " ", verb, " ", WithArticle(what),
                          " and ", then, " the ", thing, ".");
    case 4:
      return absl::StrCat("It was in the ", place, " that the ", who, " ", verb, " the ", what,
                          ".");
    case 5:
      return absl::StrCat("While the ", who, " ", verb, " the ", thing, ", the ", other, " ", then,
                          " the ", what, " ", how, ".");
    case 6:
      return absl::StrCat(when, " there was ", WithArticle(thing), " in the ", where, ", and the ",
                          who, " ", verb, " it ", how, ".");
    default:
      return absl::StrCat("People say that the ", who, " of the ", place, " once ", verb, " ",
                          WithArticle(what), ".");
  }
}

}  // namespace

std::vector<std::string> ProseSentences(int64_t count, Random random) {
  std::vector<std::string> sentences;
  for (int64_t i = 0; i < count; ++i) {
    Random own(random.Next());
    sentences.push_back(Sentence(own));
  }
  return sentences;
}

std::vector<std::string> FillerSentences(int64_t count) {
  std::vector<std::string> sentences;
  for (int64_t i = 0; i < count; ++i) {
    sentences.emplace_back(kFiller[static_cast<size_t>(i) % std::size(kFiller)]);
  }
  return sentences;
}

std::string Hide(const std::vector<std::string>& sentences, const std::vector<std::string>& needles,
                 const std::vector<int64_t>& positions, int64_t paragraph) {
  std::string text;
  size_t next = 0;
  const auto add = [&text](const std::string& sentence) {
    if (!text.empty() && text.back() != '\n') text += ' ';
    text += sentence;
  };
  const auto count = static_cast<int64_t>(sentences.size());
  for (int64_t i = 0; i <= count; ++i) {
    if (i > 0 && i < count && i % paragraph == 0) text += '\n';
    while (next < needles.size() && positions[next] == i) add(needles[next++]);
    if (i < count) add(sentences[static_cast<size_t>(i)]);
  }
  return text;
}

}  // namespace anchorage::eval::ruler
