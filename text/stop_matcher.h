// Finds stop strings in streamed text and says how much of the text may be shown.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace anchorage::text {

// An Aho-Corasick automaton over the stop strings (Aho & Corasick, CACM 18(6), 1975). Its state is
// the longest suffix of the text that some stop string starts with: exactly what must be held back.
// The stop string that is completed first wins; of several completed by the same byte, the longest,
// which starts first. How the text is cut into pushes makes no difference. O(1) amortised per byte.
class StopMatcher {
 public:
  // Empty stop strings are ignored. No stop strings: everything passes at once.
  explicit StopMatcher(std::span<const std::string> stops);

  // The text that may be shown now. After a match: the text before the stop string, and from then
  // on nothing.
  std::string Push(std::string_view text);

  // At the end of the stream: the text held back, which no stop string completed.
  std::string Finish();

  bool stopped() const { return matched_.has_value(); }

  // Index into the constructor's `stops`, once stopped.
  std::optional<size_t> matched() const { return matched_; }

 private:
  struct Node {
    std::map<char, int> children;
    int suffix = 0;              // node of the longest proper suffix that is in the trie
    size_t depth = 0;            // bytes from the root
    std::optional<size_t> stop;  // the longest stop string that ends here
    size_t stop_length = 0;
  };

  int Step(int state, char byte) const;

  std::vector<Node> nodes_;
  int state_ = 0;
  std::string held_;  // the bytes of the state: held_.size() == nodes_[state_].depth
  std::optional<size_t> matched_;
};

}  // namespace anchorage::text
