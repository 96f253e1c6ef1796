#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/ruler/families.h"
#include "eval/ruler/haystack.h"

namespace anchorage::eval::ruler {
namespace {

constexpr int kDigits = 64;
constexpr int64_t kParagraph = 8;  // sentences

}  // namespace

Draft Passkey(const Brief& brief) {
  Random random = brief.Stream("key");
  std::string key(1, static_cast<char>('1' + random.Below(9)));
  while (key.size() < kDigits) key += static_cast<char>('0' + random.Below(10));
  const double depth = std::max(0.0, brief.depth);
  const int64_t place = std::llround(depth * static_cast<double>(brief.units));
  const std::string needle =
      absl::StrFormat("The pass key is %s. Remember it. %s is the pass key.", key, key);
  Draft draft;
  draft.prompt = absl::StrCat(
      "There is important information hidden inside a lot of irrelevant text. Find it and memorize "
      "it. I will quiz you about the important information.\n",
      Hide(ProseSentences(brief.units, brief.Stream("haystack")), {needle}, {place}, kParagraph),
      "\nWhat is the pass key mentioned in the provided text?");
  draft.cue = "The pass key mentioned in the provided text is the number";
  draft.refs = {key};
  draft.depth = depth;
  return draft;
}

}  // namespace anchorage::eval::ruler
