#include "kernels/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace anchorage::kernels {
namespace {

using ::testing::Each;

class StreamTest : public ::testing::TestWithParam<int> {};

TEST_P(StreamTest, RunsEveryIndexOnceWithAWorkerInRange) {
  Stream stream(GetParam());
  for (const int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<int> runs(count, 0);
    std::atomic<bool> in_range{true};
    stream.ParallelFor(count, [&](int64_t i, int worker) {
      ++runs[i];
      if (worker < 0 || worker >= stream.num_threads()) in_range = false;
    });
    EXPECT_THAT(runs, Each(1)) << count;
    EXPECT_TRUE(in_range);
  }
}

TEST_P(StreamTest, ShowsTheCallerWhatTheTasksWrote) {
  Stream stream(GetParam());
  std::vector<int64_t> values(257, 0);
  for (int64_t round = 1; round <= 200; ++round) {
    stream.ParallelFor(static_cast<int64_t>(values.size()),
                       [&](int64_t i, int) { values[i] += i; });
    ASSERT_EQ(values[256], 256 * round);
    ASSERT_EQ(values[1], round);
  }
}

TEST_P(StreamTest, RunsANestedLoopInlineOnTheSameWorker) {
  Stream stream(GetParam());
  std::vector<int> runs(64, 0);
  std::atomic<bool> same_worker{true};
  stream.ParallelFor(8, [&](int64_t outer, int worker) {
    stream.ParallelFor(8, [&](int64_t inner, int inner_worker) {
      ++runs[outer * 8 + inner];
      if (inner_worker != worker) same_worker = false;
    });
  });
  EXPECT_THAT(runs, Each(1));
  EXPECT_TRUE(same_worker);
}

TEST_P(StreamTest, NeverRunsOneWorkerTwiceAtOnce) {
  Stream stream(GetParam());
  std::vector<std::atomic<int>> busy(stream.num_threads());
  std::atomic<bool> overlapped{false};
  for (int round = 0; round < 50; ++round) {
    stream.ParallelFor(100, [&](int64_t, int worker) {
      if (busy[worker].fetch_add(1) != 0) overlapped = true;
      busy[worker].fetch_sub(1);
    });
  }
  EXPECT_FALSE(overlapped);
}

INSTANTIATE_TEST_SUITE_P(Threads, StreamTest, ::testing::Values(1, 2, 3, 8),
                         [](const auto& info) { return "Threads" + std::to_string(info.param); });

TEST(StreamPoolTest, UsesMoreThanOneThread) {
  Stream stream(2);
  std::mutex mutex;
  std::set<int> workers;
  std::atomic<int> arrived{0};
  // Each of the two tasks waits for the other, so one thread alone could never finish.
  stream.ParallelFor(2, [&](int64_t, int worker) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    std::lock_guard lock(mutex);
    workers.insert(worker);
  });
  EXPECT_EQ(workers.size(), 2u);
}

TEST(StreamPoolTest, CountsTheCallerAmongItsThreads) {
  EXPECT_EQ(Stream(1).num_threads(), 1);
  EXPECT_EQ(Stream(4).num_threads(), 4);
}

}  // namespace
}  // namespace anchorage::kernels
