#include "common/task_group.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace anchorage {
namespace {

TEST(TaskGroupTest, ClosingAnEmptyGroupIsDoneAtOnce) {
  TaskGroup group;
  bool done = false;
  group.Close([&] { done = true; });
  EXPECT_TRUE(done);
}

TEST(TaskGroupTest, DoneRunsWhenTheLastTokenLeaves) {
  TaskGroup group;
  TaskGroup::Token first = group.Enter();
  TaskGroup::Token second = group.Enter();
  int done = 0;
  group.Close([&] { ++done; });
  first = TaskGroup::Token();
  EXPECT_EQ(done, 0);
  EXPECT_EQ(group.running(), 1);
  { const TaskGroup::Token moved = std::move(second); }
  EXPECT_EQ(done, 1);
}

TEST(TaskGroupTest, AClosedGroupLetsNobodyIn) {
  TaskGroup group;
  group.Close([] {});
  EXPECT_FALSE(group.Enter());
}

TEST(TaskGroupTest, TokensMayOutliveTheGroup) {
  TaskGroup::Token token;
  {
    TaskGroup group;
    token = group.Enter();
  }
  EXPECT_TRUE(token);
}

TEST(TaskGroupTest, CountsAcrossThreads) {
  TaskGroup group;
  std::atomic<int> done{0};
  std::vector<TaskGroup::Token> tokens;
  for (int i = 0; i < 8; ++i) tokens.push_back(group.Enter());
  group.Close([&] { ++done; });
  std::vector<std::thread> threads;
  for (TaskGroup::Token& token : tokens) {
    threads.emplace_back([moved = std::move(token)]() mutable { moved = TaskGroup::Token(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace anchorage
