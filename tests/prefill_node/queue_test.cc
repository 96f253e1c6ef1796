#include "prefill_node/core/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace anchorage::prefill {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

QueuedPrompt Prompt(uint64_t request, int64_t tokens, int64_t deadline_ns = 0) {
  QueuedPrompt prompt;
  prompt.id = {.request = request, .generation = 1};
  prompt.prompt_ids.assign(static_cast<size_t>(tokens), 7);
  prompt.deadline_ns = deadline_ns;
  return prompt;
}

std::vector<uint64_t> Requests(const std::vector<QueuedPrompt>& prompts) {
  std::vector<uint64_t> requests;
  for (const QueuedPrompt& prompt : prompts) requests.push_back(prompt.id.request);
  return requests;
}

TEST(ChooseBatchTest, TheOldestAlwaysGoes) {
  EXPECT_THAT(ChooseBatch({}, {}), IsEmpty());
  const std::vector<int64_t> huge = {1'000'000, 10};
  EXPECT_THAT(ChooseBatch(huge, {}), ElementsAre(0));
}

TEST(ChooseBatchTest, ShortPromptsRideAlongWithinTheLimits) {
  const BatchLimits limits{.short_tokens = 100, .max_tokens = 250, .max_prompts = 3};
  const std::vector<int64_t> exact = {100, 100, 50, 1};
  EXPECT_THAT(ChooseBatch(exact, limits), ElementsAre(0, 1, 2));
  const std::vector<int64_t> full = {100, 100, 51, 50, 50};
  EXPECT_THAT(ChooseBatch(full, limits), ElementsAre(0, 1, 3));
  const std::vector<int64_t> with_long = {10, 5000, 10, 101, 10, 10};
  EXPECT_THAT(ChooseBatch(with_long, limits), ElementsAre(0, 2, 4));
  const std::vector<int64_t> long_first = {5000, 10, 10};
  EXPECT_THAT(ChooseBatch(long_first, limits), ElementsAre(0));
}

class QueueTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  PromptQueue queue_{{.max_prompts = 3, .max_tokens = 1000}, clock_};
};

TEST_F(QueueTest, IsFirstInFirstOut) {
  for (const uint64_t request : {1, 2, 3}) ASSERT_TRUE(queue_.Push(Prompt(request, 300)).ok());
  EXPECT_EQ(queue_.depth().prompts, 3);
  EXPECT_EQ(queue_.depth().tokens, 900);
  const BatchLimits one_each{.short_tokens = 0, .max_tokens = 0, .max_prompts = 1};
  EXPECT_THAT(Requests(queue_.TakeBatch(one_each)), ElementsAre(1));
  EXPECT_THAT(Requests(queue_.TakeBatch(one_each)), ElementsAre(2));
  EXPECT_THAT(Requests(queue_.TakeBatch(one_each)), ElementsAre(3));
  EXPECT_THAT(queue_.TakeBatch(one_each), IsEmpty());
  EXPECT_EQ(queue_.depth().tokens, 0);
}

TEST_F(QueueTest, IsBoundedInPromptsAndTokens) {
  ASSERT_TRUE(queue_.Push(Prompt(1, 600)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(queue_.Push(Prompt(2, 401))));
  ASSERT_TRUE(queue_.Push(Prompt(3, 100)).ok());
  ASSERT_TRUE(queue_.Push(Prompt(4, 100)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(queue_.Push(Prompt(5, 1))));
  EXPECT_EQ(queue_.depth().tokens, 800);
}

TEST_F(QueueTest, AnEmptyQueueTakesAPromptOfAnyLength) {
  EXPECT_TRUE(queue_.Push(Prompt(1, 5000)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(queue_.Push(Prompt(2, 1))));
}

TEST_F(QueueTest, RefusesAnAttemptThatWaitsAlready) {
  ASSERT_TRUE(queue_.Push(Prompt(1, 10)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(queue_.Push(Prompt(1, 10))));
}

TEST_F(QueueTest, RemovesFromTheMiddle) {
  for (const uint64_t request : {1, 2, 3}) ASSERT_TRUE(queue_.Push(Prompt(request, 10)).ok());
  EXPECT_TRUE(queue_.Remove({.request = 2, .generation = 1}));
  EXPECT_FALSE(queue_.Remove({.request = 2, .generation = 1}));
  EXPECT_FALSE(queue_.Remove({.request = 3, .generation = 2}));
  EXPECT_EQ(queue_.depth().tokens, 20);
  EXPECT_THAT(Requests(queue_.TakeBatch({})), ElementsAre(1, 3));
}

TEST_F(QueueTest, DeadlinesTakePromptsOut) {
  const int64_t now = clock_.NowNs();
  ASSERT_TRUE(queue_.Push(Prompt(1, 10, now + 100)).ok());
  ASSERT_TRUE(queue_.Push(Prompt(2, 20, now + 300)).ok());
  ASSERT_TRUE(queue_.Push(Prompt(3, 30)).ok());
  EXPECT_THAT(queue_.TakeExpired(), IsEmpty());
  clock_.AdvanceNs(100);
  EXPECT_THAT(Requests(queue_.TakeBatch({.max_prompts = 1})), ElementsAre(2));
  EXPECT_THAT(Requests(queue_.TakeExpired()), ElementsAre(1));
  EXPECT_EQ(queue_.depth().tokens, 30);
  EXPECT_TRUE(absl::IsDeadlineExceeded(queue_.Push(Prompt(4, 10, clock_.NowNs()))));
}

TEST_F(QueueTest, ShortPromptsCanBeTakenPastLongOnes) {
  ASSERT_TRUE(queue_.Push(Prompt(1, 600)).ok());
  EXPECT_THAT(queue_.TakeShortBatch({}), IsEmpty());
  ASSERT_TRUE(queue_.Push(Prompt(2, 20)).ok());
  ASSERT_TRUE(queue_.Push(Prompt(3, 30)).ok());
  EXPECT_THAT(Requests(queue_.TakeShortBatch({})), ElementsAre(2, 3));
  EXPECT_EQ(queue_.depth().tokens, 600);
  EXPECT_THAT(Requests(queue_.TakeBatch({})), ElementsAre(1));
}

TEST_F(QueueTest, RemembersWhenAPromptCame) {
  clock_.AdvanceNs(50);
  const int64_t came = clock_.NowNs();
  ASSERT_TRUE(queue_.Push(Prompt(1, 10)).ok());
  clock_.AdvanceNs(50);
  EXPECT_EQ(queue_.TakeBatch({}).front().enqueued_ns, came);
}

}  // namespace
}  // namespace anchorage::prefill
