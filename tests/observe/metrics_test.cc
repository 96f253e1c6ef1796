#include "observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "observe/buckets.h"
#include "observe/process_usage.h"
#include "observe/shared_metrics.h"

namespace anchorage::observe {
namespace {

using ::testing::HasSubstr;

TEST(MetricsTest, SerializesNamesHelpLabelsAndValues) {
  MetricsRegistry registry;
  registry.AddCounter("anchorage_things_total", "Things.", {{"kind", "a"}}).Add(3);
  registry.AddGauge("anchorage_level_bytes", "Level.").Set(-2.5);
  const std::string text = registry.Serialize();
  EXPECT_THAT(text, HasSubstr("# HELP anchorage_things_total Things.\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE anchorage_things_total counter\n"));
  EXPECT_THAT(text, HasSubstr("anchorage_things_total{kind=\"a\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("anchorage_level_bytes -2.5\n"));
}

TEST(MetricsTest, TheSameNameAndLabelsAreTheSameMetric) {
  MetricsRegistry registry;
  registry.AddCounter("a_total", "A.", {{"x", "1"}}).Add();
  const Counter again = registry.AddCounter("a_total", "A.", {{"x", "1"}});
  again.Add();
  EXPECT_EQ(again.value(), 2);
}

TEST(MetricsTest, HistogramCountsIntoItsBuckets) {
  MetricsRegistry registry;
  const Histogram histogram = registry.AddHistogram("t_seconds", "T.", {1, 2});
  histogram.Observe(1.5);
  histogram.Observe(5);
  const std::string text = registry.Serialize();
  EXPECT_THAT(text, HasSubstr("t_seconds_bucket{le=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("t_seconds_bucket{le=\"2\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("t_seconds_bucket{le=\"+Inf\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("t_seconds_sum 6.5\n"));
}

TEST(MetricsTest, CollectorsRunBeforeEachSerialize) {
  MetricsRegistry registry;
  const Gauge gauge = registry.AddGauge("g", "G.");
  int calls = 0;
  registry.AddCollector([&] { gauge.Set(++calls); });
  EXPECT_THAT(registry.Serialize(), HasSubstr("g 1\n"));
  EXPECT_THAT(registry.Serialize(), HasSubstr("g 2\n"));
}

TEST(MetricsTest, HandlesWithoutARegistryMeasureNothing) {
  Counter().Add();
  Gauge().Set(1);
  Histogram().Observe(1);
  EXPECT_EQ(Counter().value(), 0);
}

TEST(BucketsTest, AscendStrictly) {
  for (const auto& buckets :
       {TimeToFirstTokenBuckets(), InterTokenBuckets(), RequestDurationBuckets(),
        StageDurationBuckets(), TransferDurationBuckets(), TransferSizeBuckets(),
        CompressionRatioBuckets(), TokenCountBuckets(), BatchSizeBuckets()}) {
    ASSERT_FALSE(buckets.empty());
    for (size_t i = 1; i < buckets.size(); ++i) EXPECT_LT(buckets[i - 1], buckets[i]);
  }
  EXPECT_EQ(TransferSizeBuckets().back(), 0x1p35);
  EXPECT_EQ(TokenCountBuckets().back(), 2e5);
}

TEST(ProcessUsageTest, SeesThisProcess) {
  const ProcessUsage usage = ReadProcessUsage();
  EXPECT_GT(usage.resident_bytes, 1 << 20);
  EXPECT_GT(usage.virtual_bytes, usage.resident_bytes);
  EXPECT_GE(usage.threads, 1);
  EXPECT_GE(usage.open_fds, 3);
  EXPECT_GE(usage.max_fds, usage.open_fds);
  EXPECT_GT(usage.start_seconds, 1.6e9);
  std::FILE* file = std::fopen("/dev/null", "r");
  EXPECT_EQ(ReadProcessUsage().open_fds, usage.open_fds + 1);
  std::fclose(file);
}

TEST(SharedMetricsTest, PassPromtoolsCheck) {
  MetricsRegistry registry;
  AddProcessMetrics(registry, "decode", {"anchorkv", "20", "1", "ucx"});
  StageDuration(registry, "decode", "transfer").Observe(0.1);
  QueueDepth(registry, "decode", "decode").Set(1);
  QueueWait(registry, "decode", "decode").Observe(0.1);
  PrefillQueuedTokens(registry, "prefill").Set(7);
  InterTokenLatency(registry, "decode", "m").Observe(0.01);
  AdmissionRejections(registry, "decode", "headroom").Add();
  ASSERT_EQ(std::system("command -v promtool > /dev/null"), 0)
      << "scripts/setup.sh --tests brings promtool";
  std::FILE* promtool = popen("promtool check metrics", "w");
  ASSERT_NE(promtool, nullptr);
  const std::string text = registry.Serialize();
  std::fwrite(text.data(), 1, text.size(), promtool);
  EXPECT_EQ(pclose(promtool), 0) << text;
}

}  // namespace
}  // namespace anchorage::observe
