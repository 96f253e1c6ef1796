// Byte-pair merges (Sennrich et al., arXiv 1508.07909) by rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace anchorage::text {

// Which two neighbouring symbols become which one, and how early.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;   // lower first
    int32_t result;  // symbol
  };

  // False if the pair has a merge already. Symbols are >= 0.
  bool Add(int32_t left, int32_t right, Merge merge) {
    return merges_.emplace(Key(left, right), merge).second;
  }

  // nullptr when the pair does not merge.
  const Merge* Find(int32_t left, int32_t right) const {
    const auto found = merges_.find(Key(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }

 private:
  static uint64_t Key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  absl::flat_hash_map<uint64_t, Merge> merges_;
};

// Applies a table to words, reusing its memory from word to word. Not thread-safe.
class BpeMerger {
 public:
  explicit BpeMerger(const MergeTable* table) : table_(table) {}

  // Merges the symbols of one word until none is left to merge: always the pair of lowest rank, the
  // leftmost of equals. Negative symbols never merge. The result is valid until the next call.
  // O(n log n): a heap holds candidate pairs; those that a merge made stale are dropped when
  // popped.
  std::span<const int32_t> Merge(std::span<const int32_t> symbols);

 private:
  struct Node {
    int32_t symbol;
    uint32_t rank;     // of merging with the next node; kNoRank if that cannot be
    int32_t result;    // of that merge
    int32_t previous;  // indices into nodes_, -1 at the ends
    int32_t next;
  };

  void UpdateCandidate(int32_t index);

  const MergeTable* table_;
  std::vector<Node> nodes_;
  std::vector<uint64_t> heap_;  // rank in the high half, index of the left node in the low half
  std::vector<int32_t> merged_;
};

}  // namespace anchorage::text
