// What needles are hidden in: sentences made by a generator, one independent of the next, so that a
// longer haystack begins with the shorter one.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "eval/random.h"

namespace anchorage::eval::ruler {

// So many sentences that tell of people, things and places, no two alike but by chance.
std::vector<std::string> ProseSentences(int64_t count, Random random);

// Five short sentences over and over, which repel no needle.
std::vector<std::string> FillerSentences(int64_t count);

// Hides needles[i] before the sentence positions[i], all counted in the haystack without needles;
// positions ascend, each in [0, sentences]. Sentences are joined by single spaces, paragraphs of
// `paragraph` sentences by newlines; a needle stands in the paragraph that it was put into.
std::string Hide(const std::vector<std::string>& sentences, const std::vector<std::string>& needles,
                 const std::vector<int64_t>& positions, int64_t paragraph);

// What `draw` gives that is not in `used` yet, and puts it there. Where new ones have become rare,
// two are joined by a hyphen.
template <typename Draw>
std::string DrawNew(std::set<std::string>& used, Draw draw) {
  constexpr int kTries = 32;
  for (int tries = 0;; ++tries) {
    std::string drawn = draw();
    if (tries >= kTries) drawn += "-" + draw();
    if (used.insert(drawn).second) return drawn;
  }
}

}  // namespace anchorage::eval::ruler
