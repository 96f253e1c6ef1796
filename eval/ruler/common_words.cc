#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/ruler/families.h"
#include "eval/ruler/haystack.h"
#include "eval/ruler/words.h"

namespace anchorage::eval::ruler {
namespace {

constexpr int kCommon = 10;
constexpr int64_t kShort = 4096;  // below it words come up less often, so that there is room

struct Frequencies {
  int common;
  int uncommon;
};

// Of at least four letters: a shorter one may be found inside any other by chance.
std::string DrawWord(Random& random) {
  std::string_view word;
  while (word.size() < 4) {
    word = random.Below(4) == 0 ? random.Pick(Adjectives()) : AnyNoun(random);
  }
  return std::string(word);
}

// Whether there is another word that has this one in it, as "boatman" has "boat": an answer that
// names the other would seem to name this one.
bool IsPartOfAnother(std::string_view word) {
  for (const auto words : {Adjectives(), People(), Things(), Places()}) {
    if (std::any_of(words.begin(), words.end(), [word](std::string_view other) {
          return other != word && other.find(word) != std::string_view::npos;
        })) {
      return true;
    }
  }
  return false;
}

std::string NumberedList(const std::vector<std::string>& words) {
  std::string list;
  for (size_t i = 0; i < words.size(); ++i) {
    absl::StrAppend(&list, i == 0 ? "" : " ", i + 1, ". ", words[i]);
  }
  return list;
}

// kCommon words and so many others, each as often as it should be, in random order. Common words
// differ from `used` too, and are no part of any other word, nor of two joined.
std::string WordList(Random random, std::set<std::string>& used, int64_t uncommon,
                     const Frequencies& frequencies, std::vector<std::string>& common) {
  const auto draw_common = [&random] {
    std::string word = DrawWord(random);
    while (IsPartOfAnother(word)) word = DrawWord(random);
    return word;
  };
  const auto draw_other = [&random, &common] {
    std::string word = DrawWord(random);
    while (std::find(common.begin(), common.end(), word) != common.end()) word = DrawWord(random);
    return word;
  };
  std::vector<std::string> entries;
  for (int i = 0; i < kCommon; ++i) {
    common.push_back(DrawNew(used, draw_common));
    entries.insert(entries.end(), static_cast<size_t>(frequencies.common), common.back());
  }
  for (int64_t i = 0; i < uncommon; ++i) {
    const std::string word = DrawNew(used, draw_other);
    entries.insert(entries.end(), static_cast<size_t>(frequencies.uncommon), word);
  }
  random.Shuffle(entries);
  return NumberedList(entries);
}

std::string Question(const std::string& list) {
  return absl::StrFormat(
      "Below is a numbered list of words. In these words, some appear more often than others. "
      "Memorize the ones that appear most often.\n%s\nQuestion: What are the %d most common words "
      "in the above list?",
      list, kCommon);
}

std::string Cue() {
  return absl::StrFormat("Answer: The top %d words that appear most often in the list are:",
                         kCommon);
}

}  // namespace

Draft CommonWords(const Brief& brief) {
  const bool is_short = brief.target_len < kShort;
  std::set<std::string> used;
  std::vector<std::string> example_words;
  const std::string example =
      WordList(brief.Stream("example"), used, is_short ? 10 : 30,
               is_short ? Frequencies{3, 1} : Frequencies{10, 3}, example_words);
  Draft draft;
  const std::string list = WordList(brief.Stream("haystack"), used, brief.units,
                                    is_short ? Frequencies{6, 1} : Frequencies{30, 3}, draft.refs);
  draft.prompt = absl::StrCat(Question(example), "\n", Cue(), " ", NumberedList(example_words),
                              "\n\n", Question(list));
  draft.cue = Cue();
  return draft;
}

}  // namespace anchorage::eval::ruler
