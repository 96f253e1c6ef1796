#include "decode_node/quarantine_watch.h"

#include <gtest/gtest.h>

#include <string>

namespace anchorage::decode {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

ArenaUsage Quarantined(int64_t bytes, int64_t regions) {
  return {.limit_bytes = 1000, .quarantined_bytes = bytes, .quarantined_regions = regions};
}

TEST(QuarantineWatchTest, OnlyWhatLastsMatters) {
  QuarantineWatch watch;
  EXPECT_TRUE(watch.Judge(Quarantined(51, 1), 10 * kSecond).ok());
  EXPECT_TRUE(watch.Judge(Quarantined(900, 3), 15 * kSecond - 1).ok());
  const absl::Status status = watch.Judge(Quarantined(51, 2), 15 * kSecond);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()), "51 bytes in 2 regions have been in quarantine for 5 s");
}

TEST(QuarantineWatchTest, WhatCameBackCountsNoMore) {
  QuarantineWatch watch;
  EXPECT_TRUE(watch.Judge(Quarantined(51, 1), 0).ok());
  EXPECT_TRUE(watch.Judge(Quarantined(50, 64), 3 * kSecond).ok());
  EXPECT_TRUE(watch.Judge(Quarantined(51, 1), 4 * kSecond).ok());
  EXPECT_TRUE(watch.Judge(Quarantined(51, 1), 9 * kSecond - 1).ok());
  EXPECT_FALSE(watch.Judge(Quarantined(51, 1), 9 * kSecond).ok());
  EXPECT_TRUE(watch.Judge(Quarantined(0, 0), 9 * kSecond).ok()) << "at once, too";
}

TEST(QuarantineWatchTest, ManySmallRegionsMatterToo) {
  QuarantineWatch watch;
  EXPECT_TRUE(watch.Judge(Quarantined(1, 65), 0).ok());
  EXPECT_FALSE(watch.Judge(Quarantined(1, 65), 5 * kSecond).ok());
}

}  // namespace
}  // namespace anchorage::decode
