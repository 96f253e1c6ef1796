#include "worker/transfer_metrics.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace anchorage::worker {
namespace {

using ::testing::HasSubstr;

TEST(TransferMetricsTest, OverlappingTransfersAreBusyOnce) {
  observe::MetricsRegistry registry;
  FakeClock clock;
  TransferMetrics metrics(registry, clock, "prefill", "tx", "tcp");
  const int64_t first = metrics.Begin();
  clock.AdvanceNs(1'000'000'000);
  const int64_t second = metrics.Begin();
  clock.AdvanceNs(2'000'000'000);
  metrics.Succeed(first, 100, 2'000);
  clock.AdvanceNs(1'000'000'000);
  metrics.Fail(second, "peer_lost");
  clock.AdvanceNs(5'000'000'000);  // idle
  const std::string text = registry.Serialize();
  EXPECT_THAT(text, HasSubstr("anchorage_kv_transfer_busy_seconds_total{direction=\"tx\","
                              "role=\"prefill\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("anchorage_kv_transfer_bytes_total{direction=\"tx\",role=\"prefill\","
                              "transport=\"tcp\"} 100\n"));
  EXPECT_THAT(text, HasSubstr("anchorage_kv_transfer_uncompressed_bytes_total{direction=\"tx\","
                              "role=\"prefill\",transport=\"tcp\"} 2000\n"));
  EXPECT_THAT(text, HasSubstr("anchorage_kv_transfers_in_flight{direction=\"tx\","
                              "role=\"prefill\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("reason=\"peer_lost\""));
}

TEST(FailureReasonTest, TellsTimeoutsAndLostPeersFromRefusals) {
  EXPECT_STREQ(FailureReason(absl::DeadlineExceededError("")), "timeout");
  EXPECT_STREQ(FailureReason(absl::UnavailableError("")), "peer_lost");
  EXPECT_STREQ(FailureReason(absl::AbortedError("")), "refused");
}

}  // namespace
}  // namespace anchorage::worker
