// Random numbers that are the same on every machine and with every library, which std::shuffle and
// the distributions of <random> do not promise.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace anchorage::eval {

// SplitMix64 (Steele, Lea, Flood 2014). Copies go on independently of each other.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // A stream of its own for each name under a seed: FNV-1a of the name, mixed with the seed.
  Random(uint64_t seed, std::string_view name) : state_(seed) {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    state_ = Next() ^ hash;
    Next();
  }

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  // In [0, bound); bound > 0. Its bias, bound / 2^64, is below anything measured here.
  uint64_t Below(uint64_t bound) { return Next() % bound; }

  // In [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }

  // One of the elements; not of an empty list.
  template <typename List>
  auto Pick(const List& list) {
    return list[Below(std::size(list))];
  }

  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(i)]);
  }

 private:
  uint64_t state_;
};

}  // namespace anchorage::eval
