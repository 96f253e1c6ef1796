#include "kv/plan/profile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace anchorage::kv {
namespace {

constexpr int64_t kMaxRates = 64;
constexpr int64_t kMaxMillibits = 16'000;            // uncompressed
constexpr int64_t kMaxNanonats = 1'000'000'000'000;  // 1,000 nats
constexpr int64_t kLeastShare = 16;                  // a layer gets 1/16 of an equal share

// One step of a layer's curve, from a rate to the next.
struct Step {
  int64_t layer = 0;
  int64_t millibits = 0;  // that it costs
  int64_t nanonats = 0;   // that it saves
  int64_t end_millibits = 0;

  // Whether it saves more for a bit. Exact: both factors fit 40 and 14 bits.
  bool IsSteeperThan(const Step& other) const {
    return nanonats * other.millibits > other.nanonats * millibits;
  }
};

int64_t Error(const Profile& profile, int64_t layer, size_t rate) {
  return profile.nanonats[static_cast<size_t>(layer) * profile.millibits.size() + rate];
}

Step StepBetween(const Profile& profile, int64_t layer, size_t from, size_t to) {
  return {layer, profile.millibits[to] - profile.millibits[from],
          Error(profile, layer, from) - Error(profile, layer, to), profile.millibits[to]};
}

// The rates at which the lower convex hull of a layer's curve bends, ascending from 0.
std::vector<size_t> Hull(const Profile& profile, int64_t layer) {
  std::vector<size_t> hull = {0};
  for (size_t rate = 1; rate < profile.millibits.size(); ++rate) {
    while (hull.size() > 1) {
      const size_t last = hull.back();
      const size_t before = hull[hull.size() - 2];
      // Saving more for a bit after `last` than before it: the curve lies below without `last`.
      if (!StepBetween(profile, layer, last, rate)
               .IsSteeperThan(StepBetween(profile, layer, before, last))) {
        break;
      }
      hull.pop_back();
    }
    hull.push_back(rate);
  }
  return hull;
}

std::string At(int64_t layer, size_t rate) {
  return "layer " + std::to_string(layer) + ", rate " + std::to_string(rate);
}

std::string CheckRates(const std::vector<int64_t>& millibits) {
  if (millibits.size() < 2 || static_cast<int64_t>(millibits.size()) > kMaxRates) {
    return "a profile has 2 to " + std::to_string(kMaxRates) + " rates, not " +
           std::to_string(millibits.size());
  }
  if (millibits.front() != 0) return "the first rate must be 0";
  for (size_t i = 1; i < millibits.size(); ++i) {
    if (millibits[i] <= millibits[i - 1] || millibits[i] > kMaxMillibits) {
      return "rates must ascend to at most " + std::to_string(kMaxMillibits) + ", rate " +
             std::to_string(i) + " is " + std::to_string(millibits[i]);
    }
  }
  return "";
}

std::string CheckCurve(const Profile& profile, int64_t layer) {
  for (size_t i = 0; i < profile.millibits.size(); ++i) {
    const int64_t error = Error(profile, layer, i);
    if (error < 0 || error > kMaxNanonats) {
      return At(layer, i) + ": an error of " + std::to_string(error);
    }
  }
  return "";
}

// All steps that save something, steepest first; a layer's own stay in order, as a hull is convex.
std::vector<Step> SortedSteps(const Profile& profile, int64_t num_layers) {
  std::vector<Step> steps;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const std::vector<size_t> hull = Hull(profile, layer);
    for (size_t i = 1; i < hull.size(); ++i) {
      const Step step = StepBetween(profile, layer, hull[i - 1], hull[i]);
      if (step.nanonats > 0) steps.push_back(step);
    }
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.IsSteeperThan(b); });
  return steps;
}

// Gives `left` to the layers that have room, equally, the lower ones first where it does not
// divide.
void SpreadEqually(int64_t most_bytes, int64_t left, std::vector<int64_t>& bytes) {
  while (left > 0) {
    const int64_t open =
        std::count_if(bytes.begin(), bytes.end(), [&](int64_t each) { return each < most_bytes; });
    if (open == 0) return;
    const int64_t each_gets = std::max<int64_t>(left / open, 1);
    for (int64_t& each : bytes) {
      const int64_t taken = std::min({each_gets, most_bytes - each, left});
      each += taken;
      left -= taken;
    }
  }
}

}  // namespace

std::string CheckProfile(const Profile& profile, int64_t num_layers) {
  if (profile.empty() && profile.nanonats.empty()) return "";
  if (const std::string problem = CheckRates(profile.millibits); !problem.empty()) return problem;
  if (profile.nanonats.size() % profile.millibits.size() != 0 ||
      static_cast<int64_t>(profile.nanonats.size() / profile.millibits.size()) != num_layers) {
    return "the profile has " + std::to_string(profile.nanonats.size() / profile.millibits.size()) +
           " layers, the model " + std::to_string(num_layers);
  }
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    if (const std::string problem = CheckCurve(profile, layer); !problem.empty()) return problem;
  }
  return "";
}

int64_t BytesAtRate(int64_t coordinates, int64_t millibits) {
  constexpr int64_t kMillibitsPerByte = 8000;
  return coordinates / kMillibitsPerByte * millibits +
         coordinates % kMillibitsPerByte * millibits / kMillibitsPerByte;
}

int64_t NanonatsLeft(const Profile& profile, int64_t layer, int64_t coordinates, int64_t bytes) {
  size_t above = 1;
  const size_t last = profile.millibits.size() - 1;
  while (above < last && BytesAtRate(coordinates, profile.millibits[above]) < bytes) ++above;
  const int64_t from = BytesAtRate(coordinates, profile.millibits[above - 1]);
  const int64_t to = BytesAtRate(coordinates, profile.millibits[above]);
  const double share =
      to == from
          ? 1.0
          : std::min(1.0, static_cast<double>(bytes - from) / static_cast<double>(to - from));
  const int64_t before = Error(profile, layer, above - 1);
  const int64_t after = Error(profile, layer, above);
  return before + std::llround(share * static_cast<double>(after - before));
}

std::vector<int64_t> ShareBytes(const Profile& profile, int64_t num_layers, int64_t coordinates,
                                int64_t most_bytes, int64_t total_bytes) {
  const int64_t least = std::min(total_bytes / num_layers / kLeastShare, most_bytes);
  std::vector<int64_t> bytes(static_cast<size_t>(num_layers), least);
  int64_t left = total_bytes - num_layers * least;
  for (const Step& step : SortedSteps(profile, num_layers)) {
    int64_t& own = bytes[static_cast<size_t>(step.layer)];
    const int64_t end = std::min(BytesAtRate(coordinates, step.end_millibits), most_bytes);
    const int64_t taken = std::min(std::max<int64_t>(end - own, 0), left);
    own += taken;
    left -= taken;
  }
  SpreadEqually(most_bytes, left, bytes);
  return bytes;
}

}  // namespace anchorage::kv
