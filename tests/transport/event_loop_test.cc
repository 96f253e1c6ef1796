#include "transport/event_loop.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>
#include <vector>

namespace anchorage::transport {
namespace {

TEST(EventLoopTest, RunsWhatOtherThreadsPostInOrder) {
  EventLoop loop;
  std::vector<int> seen;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) loop.Post([&seen, i] { seen.push_back(i); });
    loop.Stop();
  });
  loop.Run();
  other.join();
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
}

TEST(EventLoopTest, TimersFireOnceOrAgainAndCancelledOnesNever) {
  EventLoop loop;
  int once = 0;
  int cancelled = 0;
  int repeated = 0;
  loop.After(1, [&] { ++once; });
  loop.CancelTimer(loop.After(1, [&] { ++cancelled; }));
  EventLoop::TimerId every = 0;
  every = loop.Every(1, [&] {
    if (++repeated < 3) return;
    loop.CancelTimer(every);
    loop.After(5, [&] { loop.Stop(); });
  });
  loop.Run();
  EXPECT_EQ(once, 1);
  EXPECT_EQ(cancelled, 0);
  EXPECT_EQ(repeated, 3);
}

TEST(EventLoopTest, StopEndsTimersAndLetsRunReturn) {
  EventLoop loop;
  loop.Every(1'000'000, [] {});
  loop.After(1, [&] { loop.Stop(/*drain_ms=*/60'000); });
  loop.Run();  // the test's own time-out is the check: the drain time is not waited out
}

TEST(EventLoopTest, SignalsReachTheHandler) {
  EventLoop loop;
  std::vector<int> signals;
  loop.OnSignals([&](int signal) {
    signals.push_back(signal);
    if (signals.size() == 1) {
      std::raise(SIGINT);
    } else {
      loop.Stop();
    }
  });
  loop.Post([] { std::raise(SIGTERM); });
  loop.Run();
  EXPECT_EQ(signals, (std::vector<int>{SIGTERM, SIGINT}));
}

}  // namespace
}  // namespace anchorage::transport
