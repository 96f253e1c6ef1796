#include "prefill_node/core/queue.h"

#include "gtest/gtest.h"

namespace anchorage::prefill {
namespace {

QueuedPrompt Prompt(uint64_t request, int64_t tokens, int64_t deadline_ns = 0) {
  return {.id = {request, 1}, .tokens = tokens, .deadline_ns = deadline_ns};
}

std::vector<uint64_t> Requests(const std::vector<QueuedPrompt>& prompts) {
  std::vector<uint64_t> requests;
  for (const QueuedPrompt& prompt : prompts) requests.push_back(prompt.id.request);
  return requests;
}

TEST(PromptsToTakeTest, ALongPromptGoesAloneAndShortOnesTogether) {
  const std::vector<int64_t> waiting = {10'000, 5};
  EXPECT_EQ(PromptsToTake(waiting, 0, 0), 1);
  const std::vector<int64_t> short_ones = {1'000, 1'000, 48, 1};
  EXPECT_EQ(PromptsToTake(short_ones, 0, 0), 3);
  EXPECT_EQ(PromptsToTake({}, 0, 0), 0);
}

TEST(PromptsToTakeTest, CountsWhatWasTakenBefore) {
  const std::vector<int64_t> waiting = {1'000, 1'000};
  EXPECT_EQ(PromptsToTake(waiting, 1, 1'500), 0);
  EXPECT_EQ(PromptsToTake(waiting, 1, 1'048), 1);
  EXPECT_EQ(PromptsToTake(waiting, kBatchPrompts, 10), 0);
  EXPECT_EQ(PromptsToTake(std::vector<int64_t>(40, 1), 0, 0), kBatchPrompts);
}

TEST(QueueTest, KeepsOrderAndCountsTokens) {
  Queue queue(10);
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(queue.Push(Prompt(i, 900)).ok());
  EXPECT_EQ(queue.tokens(), 2'700);
  EXPECT_EQ(Requests(queue.Take(0, 0)), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(queue.tokens(), 900);
  EXPECT_EQ(Requests(queue.Take(2, 1'800)), std::vector<uint64_t>{});
  EXPECT_EQ(Requests(queue.Take(0, 0)), std::vector<uint64_t>{3});
  EXPECT_EQ(queue.size(), 0);
}

TEST(QueueTest, IsBounded) {
  Queue queue(1);
  EXPECT_TRUE(queue.Push(Prompt(1, 5)).ok());
  EXPECT_EQ(queue.Push(Prompt(2, 5)).code(), absl::StatusCode::kResourceExhausted);
}

TEST(QueueTest, RemovesByIdAndByDeadline) {
  Queue queue(10);
  ASSERT_TRUE(queue.Push(Prompt(1, 5, 100)).ok());
  ASSERT_TRUE(queue.Push(Prompt(2, 6)).ok());
  ASSERT_TRUE(queue.Push(Prompt(3, 7, 50)).ok());
  EXPECT_EQ(Requests(queue.TakeExpired(99)), std::vector<uint64_t>{3});
  EXPECT_TRUE(queue.Remove({2, 1}));
  EXPECT_FALSE(queue.Remove({2, 1}));
  EXPECT_FALSE(queue.Remove({1, 2})) << "another generation";
  EXPECT_EQ(queue.tokens(), 5);
}

}  // namespace
}  // namespace anchorage::prefill
