#include "text/bpe.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace anchorage::text {
namespace {

constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

}  // namespace

void BpeMerger::UpdateCandidate(int32_t index) {
  Node& node = nodes_[index];
  node.rank = kNoRank;
  if (node.next < 0) return;
  const int32_t right = nodes_[node.next].symbol;
  if (node.symbol < 0 || right < 0) return;
  const MergeTable::Merge* const merge = table_->Find(node.symbol, right);
  if (merge == nullptr) return;
  node.rank = merge->rank;
  node.result = merge->result;
  heap_.push_back(static_cast<uint64_t>(merge->rank) << 32 | static_cast<uint32_t>(index));
}

std::span<const int32_t> BpeMerger::Merge(std::span<const int32_t> symbols) {
  const int32_t size = static_cast<int32_t>(symbols.size());
  nodes_.resize(symbols.size());
  heap_.clear();
  for (int32_t i = 0; i < size; ++i) {
    nodes_[i] = {symbols[i], kNoRank, 0, i - 1, i + 1 < size ? i + 1 : -1};
  }
  for (int32_t i = 0; i < size; ++i) UpdateCandidate(i);
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const uint64_t candidate = heap_.back();
    heap_.pop_back();
    const int32_t index = static_cast<int32_t>(candidate & 0xFFFFFFFF);
    Node& node = nodes_[index];
    if (node.rank != candidate >> 32) continue;  // stale: a merge changed the node or took it away
    Node& taken = nodes_[node.next];
    taken.rank = kNoRank;
    node.symbol = node.result;
    node.next = taken.next;
    if (node.next >= 0) nodes_[node.next].previous = index;
    for (const int32_t changed : {node.previous, index}) {
      if (changed < 0) continue;
      const size_t before = heap_.size();
      UpdateCandidate(changed);
      if (heap_.size() > before) std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
  }
  merged_.clear();
  for (int32_t i = size > 0 ? 0 : -1; i >= 0; i = nodes_[i].next) {
    merged_.push_back(nodes_[i].symbol);
  }
  return merged_;
}

}  // namespace anchorage::text
