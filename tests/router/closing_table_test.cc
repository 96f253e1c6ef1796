#include "router/closing_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace anchorage::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr AttemptId kAttempt{7, 1};
constexpr WorkerId kPrefill = 3;
constexpr WorkerId kDecode = 4;

class ClosingTableTest : public ::testing::Test {
 protected:
  std::vector<WorkerId> RepeatAt(int64_t now_ns) {
    std::vector<WorkerId> told;
    table_.Repeat(now_ns, /*period_ns=*/10,
                  [&](WorkerId worker, const AttemptId& attempt, const std::string& log_id) {
                    EXPECT_EQ(attempt, kAttempt);
                    EXPECT_EQ(log_id, "r");
                    told.push_back(worker);
                  });
    return told;
  }
  ClosingTable table_;
};

TEST_F(ClosingTableTest, KeepsNothingThatNobodyHolds) {
  table_.Add(kAttempt, 0, 0, "r", 100);
  EXPECT_EQ(table_.size(), 0);
}

TEST_F(ClosingTableTest, RepeatsUntilBothHaveConfirmed) {
  table_.Add(kAttempt, kPrefill, kDecode, "r", 100);
  EXPECT_THAT(RepeatAt(109), IsEmpty());
  EXPECT_THAT(RepeatAt(110), ElementsAre(kPrefill, kDecode));
  EXPECT_THAT(RepeatAt(119), IsEmpty());
  table_.Confirm(kAttempt, proto::ROLE_PREFILL);
  EXPECT_THAT(RepeatAt(120), ElementsAre(kDecode));
  table_.Confirm({7, 2}, proto::ROLE_DECODE);  // another attempt
  EXPECT_EQ(table_.size(), 1);
  table_.Confirm(kAttempt, proto::ROLE_DECODE);
  EXPECT_EQ(table_.size(), 0);
}

TEST_F(ClosingTableTest, AWorkerThatIsGoneHoldsNothing) {
  table_.Add(kAttempt, kPrefill, kDecode, "r", 100);
  table_.RemoveWorker(kDecode);
  EXPECT_THAT(RepeatAt(200), ElementsAre(kPrefill));
  table_.RemoveWorker(kPrefill);
  EXPECT_EQ(table_.size(), 0);
}

}  // namespace
}  // namespace anchorage::router
