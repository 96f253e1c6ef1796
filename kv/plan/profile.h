// Where a model's bytes matter. Most of what compression costs comes from a few layers, whatever
// the text, so a request's residual bytes are not shared equally: a profile, calibrated offline
// once per model, says how fast each layer's error falls as its residuals get more bits, and the
// plan gives the bytes to whichever layer gains most from the next one. Integers only, so that
// every node comes to the same bytes; a request's total does not depend on the profile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace anchorage::kv {

// The error curve of each layer: what is left of the next-token distribution's divergence when this
// layer alone is compressed, at growing rates of its residuals. Empty: equal shares.
struct Profile {
  // [R] rates, ascending from 0: bits spent on residuals per coordinate of the prefix, in 1/1000.
  std::vector<int64_t> millibits;
  // [L, R] divergence in 1e-9 nats, as measured: none negative.
  std::vector<int64_t> nanonats;
  // Of the model that it belongs to; 0: not said.
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;

  bool empty() const { return millibits.empty(); }
  bool operator==(const Profile&) const = default;
};

// A sentence that says what is wrong with the profile for a model of so many layers, or "".
std::string CheckProfile(const Profile& profile, int64_t num_layers);

// floor(coordinates * millibits / 8000).
int64_t BytesAtRate(int64_t coordinates, int64_t millibits);

// What the layer's curve says is left, in 1e-9 nats, once the residuals of so many coordinates have
// `bytes`: linear between the measured rates, the last one's beyond.
// Precondition: CheckProfile says "" and the profile is not empty; coordinates >= 1.
int64_t NanonatsLeft(const Profile& profile, int64_t layer, int64_t coordinates, int64_t bytes);

// Shares `total_bytes` among the layers. Each first gets a sixteenth of an equal share, so that no
// layer starves where the calibration saw nothing; then the steepest step of any curve's lower
// convex hull is paid for, then the next; what the curves have no use for goes to all alike.
// Returns [L] bytes, each at most `most_bytes`, that add up to min(total_bytes, L * most_bytes).
//   coordinates  of one layer's prefix, K and V: what a rate is multiplied by
// Precondition: CheckProfile says "" and the profile is not empty.
std::vector<int64_t> ShareBytes(const Profile& profile, int64_t num_layers, int64_t coordinates,
                                int64_t most_bytes, int64_t total_bytes);

}  // namespace anchorage::kv
