#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "eval/ruler/families.h"
#include "eval/ruler/haystack.h"

namespace anchorage::eval::ruler {
namespace {

constexpr int kLetters = 6;
constexpr int kAsked = 3;
constexpr int64_t kTokensPerWord = 50;         // of the target length, per word of the vocabulary
constexpr double kShareOfFirst = 0.607927102;  // 1 / zeta(2)
constexpr const char* kNoise = "....";         // stands for the most frequent word

std::string DrawCodedWord(Random& random) {
  std::string word;
  for (int i = 0; i < kLetters; ++i) word += static_cast<char>('a' + random.Below(26));
  return word;
}

// How often the word of that rank (from 1) comes up among `units` words: Zipf's law, exponent 2.
// The ranks that are asked for, and the one before them, differ even in a short text.
int64_t CountOfRank(int64_t rank, int64_t units) {
  const double rank_squared = static_cast<double>(rank) * static_cast<double>(rank);
  const auto count =
      static_cast<int64_t>(static_cast<double>(units) * kShareOfFirst / rank_squared);
  return std::max<int64_t>(count, std::max<int64_t>(1, kAsked + 3 - rank));
}

}  // namespace

Draft FrequentWords(const Brief& brief) {
  const int64_t vocabulary = std::max<int64_t>(kAsked + 3, brief.target_len / kTokensPerWord);
  Random coded = brief.Stream("words");
  std::set<std::string> used;
  std::vector<std::string> text;
  Draft draft;
  for (int64_t rank = 1; rank <= vocabulary; ++rank) {
    const std::string word =
        rank == 1 ? kNoise : DrawNew(used, [&coded] { return DrawCodedWord(coded); });
    if (rank > 1 && rank <= 1 + kAsked) draft.refs.push_back(word);
    text.insert(text.end(), static_cast<size_t>(CountOfRank(rank, brief.units)), word);
  }
  brief.Stream("order").Shuffle(text);
  draft.prompt = absl::StrCat(
      "Read the following coded text and track the frequency of each coded word. Find the three "
      "most frequently appeared coded words. ",
      absl::StrJoin(text, " "),
      "\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the "
      "three most frequently appeared words in the above coded text?");
  draft.cue =
      "Answer: According to the coded text above, the three most frequently appeared words are:";
  return draft;
}

}  // namespace anchorage::eval::ruler
