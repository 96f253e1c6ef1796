#include "kv/compressors/select_anchors.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace anchorage::kv {
namespace {

uint64_t SplitMix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Keeps the `count` positions of lowest (rank, position). O(log count) for a position that enters.
class LowestRanked {
 public:
  explicit LowestRanked(int64_t count) : count_(static_cast<size_t>(count)) {
    heap_.reserve(count_);
  }

  void Offer(uint64_t rank, uint32_t position) {
    const std::pair<uint64_t, uint32_t> entry(rank, position);
    if (heap_.size() < count_) {
      heap_.push_back(entry);
      std::push_heap(heap_.begin(), heap_.end());
    } else if (count_ > 0 && entry < heap_.front()) {
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.back() = entry;
      std::push_heap(heap_.begin(), heap_.end());
    }
  }

  void AppendTo(std::vector<uint32_t>& positions) const {
    for (const auto& [rank, position] : heap_) positions.push_back(position);
  }

 private:
  size_t count_;
  std::vector<std::pair<uint64_t, uint32_t>> heap_;  // the worst that was kept is in front
};

// Ascending in falling score: the bits of non-negative floats are ordered like the floats.
uint64_t ScoreRank(float score) {
  return ~uint64_t{std::bit_cast<uint32_t>(score > 0 ? score : 0.0f)};
}

}  // namespace

uint64_t UniformHash(uint64_t seed, int layer, int64_t head, int64_t position) {
  uint64_t hash = SplitMix64(seed ^ static_cast<uint64_t>(layer));
  hash = SplitMix64(hash ^ static_cast<uint64_t>(head));
  return SplitMix64(hash ^ static_cast<uint64_t>(position));
}

std::vector<uint32_t> SelectAnchors(const LayerPlan& plan, int layer, int64_t head, uint64_t seed,
                                    std::span<const float> scores) {
  const auto prefix_len = static_cast<uint32_t>(plan.prefix_len());
  const auto num_pins = static_cast<uint32_t>(plan.num_pins);
  std::vector<uint32_t> selected;
  selected.reserve(static_cast<size_t>(plan.num_pins + plan.num_scored + plan.num_uniform));
  for (uint32_t position = 0; position < num_pins; ++position) selected.push_back(position);

  LowestRanked by_score(plan.num_scored);
  for (uint32_t position = num_pins; position < prefix_len; ++position) {
    by_score.Offer(ScoreRank(scores[position]), position);
  }
  by_score.AppendTo(selected);
  std::sort(selected.begin(), selected.end());

  LowestRanked by_hash(plan.num_uniform);
  auto taken = selected.begin();
  for (uint32_t position = 0; position < prefix_len; ++position) {
    if (taken != selected.end() && *taken == position) {
      ++taken;
    } else {
      by_hash.Offer(UniformHash(seed, layer, head, position), position);
    }
  }
  by_hash.AppendTo(selected);
  std::sort(selected.begin(), selected.end());
  return selected;
}

}  // namespace anchorage::kv
