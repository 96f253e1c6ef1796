// How fast a link must be before compressing a cache costs more time than it saves.
#pragma once

#include <cstdint>

namespace anchorage::tools {

// One layer of a layer-major prefill whose cache is shipped while the next layer computes.
struct LayerTimes {
  int64_t num_layers = 0;
  int64_t full_bytes = 0;       // of a layer, dense
  int64_t bytes = 0;            // of a layer, compressed; below full_bytes
  double prefill_seconds = 0;   // of a layer, without compression
  double compress_seconds = 0;  // of a layer; above 0
};

// From the start of prefill until the last layer has landed, over a link of that speed:
// T = c + (L - 1) max(c, b / speed) + b / speed, c the seconds and b the bytes of a layer.
inline double SecondsUntilLanded(int64_t num_layers, double layer_seconds, int64_t layer_bytes,
                                 double bytes_per_second) {
  const double send = static_cast<double>(layer_bytes) / bytes_per_second;
  const double slower = send > layer_seconds ? send : layer_seconds;
  return layer_seconds + static_cast<double>(num_layers - 1) * slower + send;
}

// The link speed, in bytes per second, at which both ways take the same time: what compression
// saves falls as the link gets faster, and what it costs stays.
inline double BreakEvenBytesPerSecond(const LayerTimes& times) {
  double pays = 1.0;       // at a byte per second it pays
  double pays_not = 1e18;  // at an exabyte per second it does not
  for (int i = 0; i < 200; ++i) {
    const double middle = pays + (pays_not - pays) / 2;
    const double dense =
        SecondsUntilLanded(times.num_layers, times.prefill_seconds, times.full_bytes, middle);
    const double compressed = SecondsUntilLanded(
        times.num_layers, times.prefill_seconds + times.compress_seconds, times.bytes, middle);
    (compressed < dense ? pays : pays_not) = middle;
  }
  return pays;
}

}  // namespace anchorage::tools
