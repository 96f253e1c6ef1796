#include "observe/buckets.h"

namespace anchorage::observe {

std::vector<double> TimeToFirstTokenBuckets() {
  return {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75, 1,
          2,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
}

std::vector<double> InterTokenBuckets() {
  return {.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3,
          .4,   .5,    .75,  1,   2.5,  5,   10,   20, 40,  80};
}

std::vector<double> RequestDurationBuckets() {
  return {.05, .1, .2, .3, .5, .8, 1,   1.5, 2,   2.5, 5,    10,
          15,  20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
}

std::vector<double> StageDurationBuckets() {
  return {.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1,  .25,
          .5,    1,      2.5,   5,    10,    20,   40,  80,   160, 640, 2560};
}

std::vector<double> TransferDurationBuckets() {
  return {.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};
}

std::vector<double> TransferSizeBuckets() {
  std::vector<double> buckets;
  for (double bytes = 0x1p11; bytes <= 0x1p35; bytes *= 4) buckets.push_back(bytes);
  return buckets;
}

std::vector<double> CompressionRatioBuckets() { return {1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32}; }

std::vector<double> TokenCountBuckets() {
  std::vector<double> buckets;
  for (double decade = 1; decade <= 1e5; decade *= 10) {
    for (const double step : {1, 2, 5}) {
      if (decade * step <= 2e5) buckets.push_back(decade * step);
    }
  }
  return buckets;
}

std::vector<double> BatchSizeBuckets() {
  std::vector<double> buckets;
  for (double size = 1; size <= 1024; size *= 2) buckets.push_back(size);
  return buckets;
}

}  // namespace anchorage::observe
