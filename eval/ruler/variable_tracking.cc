#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "eval/ruler/families.h"
#include "eval/ruler/haystack.h"

namespace anchorage::eval::ruler {
namespace {

constexpr int kHops = 4;
constexpr int kLetters = 5;
constexpr int64_t kExampleSentences = 10;
constexpr int64_t kParagraph = 5;  // sentences

// X1 = value, X2 = X1, ..., each a line of its own in the text.
struct Chain {
  std::string value;
  std::vector<std::string> variables;

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines = {absl::StrFormat("VAR %s = %s.", variables[0], value)};
    for (size_t i = 1; i < variables.size(); ++i) {
      lines.push_back(absl::StrFormat("VAR %s = VAR %s.", variables[i], variables[i - 1]));
    }
    return lines;
  }
};

Chain DrawChain(Random& random, std::set<std::string>& used) {
  Chain chain;
  chain.value = DrawNew(used, [&random] { return absl::StrCat(random.Between(10'000, 99'999)); });
  for (int i = 0; i <= kHops; ++i) {
    chain.variables.push_back(DrawNew(used, [&random] {
      std::string name;
      for (int letter = 0; letter < kLetters; ++letter) {
        name += static_cast<char>('A' + random.Below(26));
      }
      return name;
    }));
  }
  return chain;
}

// Filler with the chain's lines in it, in order.
std::string Context(const Chain& chain, int64_t sentences, Random random) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < chain.variables.size(); ++i) {
    places.push_back(random.Between(0, sentences));
  }
  std::sort(places.begin(), places.end());
  return Hide(FillerSentences(sentences), chain.Lines(), places, kParagraph);
}

std::string Question(const std::string& context, const std::string& value) {
  return absl::StrFormat(
      "Memorize and track the chain of variable assignments hidden in the following text.\n\n%s\n\n"
      "Question: Find all variables that are assigned the value %s in the text above.",
      context, value);
}

std::string Cue(const std::string& value) {
  return absl::StrFormat(
      "Answer: According to the chain of variable assignments in the text above, %d variables are "
      "assigned the value %s, they are:",
      kHops + 1, value);
}

}  // namespace

Draft VariableTracking(const Brief& brief) {
  std::set<std::string> used;
  Random chains = brief.Stream("chains");
  const Chain example = DrawChain(chains, used);
  const Chain chain = DrawChain(chains, used);
  Draft draft;
  draft.prompt = absl::StrCat(
      Question(Context(example, kExampleSentences, brief.Stream("example")), example.value), "\n",
      Cue(example.value), " ", absl::StrJoin(example.variables, " "), "\n\n",
      Question(Context(chain, brief.units, brief.Stream("places")), chain.value));
  draft.cue = Cue(chain.value);
  draft.refs = chain.variables;
  return draft;
}

}  // namespace anchorage::eval::ruler
