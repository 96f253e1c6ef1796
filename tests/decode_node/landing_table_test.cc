#include "decode_node/core/landing_table.h"

#include <vector>

#include "gtest/gtest.h"

namespace anchorage::decode {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

class LandingTableTest : public ::testing::Test {
 protected:
  static kv::RequestPlan Plan() {
    kv::RequestPlan plan;
    for (int i = 0; i < 2; ++i) {
      kv::LayerPlan layer;
      layer.region_bytes = 640;
      plan.layers.push_back(layer);
    }
    plan.region_bytes = plan.bytes = 1'280;
    return plan;
  }

  LayerAnnouncement Layer(int64_t layer) const {
    return {.attempt = id_, .nonce = nonce_, .layer = layer, .num_layers = 2, .length = 640};
  }

  void Grant() {
    auto grant = table_.Reserve(id_, Plan());
    ASSERT_TRUE(grant.ok());
    nonce_ = grant->nonce;
  }

  void Land(int64_t layer) {
    auto running = table_.Announce(Layer(layer));
    ASSERT_TRUE(running.ok()) << running.status();
    ASSERT_TRUE(table_.Quiet(running->token, absl::OkStatus()).has_value());
    table_.Verified(running->token, absl::OkStatus());
  }

  FakeClock clock_;
  Arena arena_{10'000};
  LandingTable table_{arena_, clock_, 10 * kSecondNs};
  AttemptId id_{0xabc, 2};
  uint64_t nonce_ = 0;
};

TEST_F(LandingTableTest, HandsOverTheMemoryWhenEveryLayerIsVerified) {
  Grant();
  Land(1);
  EXPECT_EQ(table_.Complete(id_, nonce_).status().code(), absl::StatusCode::kFailedPrecondition);
  Land(0);
  auto memory = table_.Complete(id_, nonce_);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(arena_.usage().used_bytes, 1'280);
  EXPECT_EQ(table_.landings(), 0);
  EXPECT_EQ(table_.Reserve(id_, Plan()).status().code(), absl::StatusCode::kAlreadyExists);
  table_.RememberEnded(id_);
  EXPECT_EQ(table_.Reserve(id_, Plan()).status().code(), absl::StatusCode::kAborted);
}

TEST_F(LandingTableTest, ReservingTwiceIsTheSameGrant) {
  Grant();
  auto again = table_.Reserve(id_, Plan());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->nonce, nonce_);
  EXPECT_EQ(arena_.usage().reserved_bytes, 1'280);
}

TEST_F(LandingTableTest, RefusesEveryHeaderThatDisagrees) {
  Grant();
  LayerAnnouncement bad = Layer(0);
  bad.nonce ^= 1;
  EXPECT_EQ(table_.Announce(bad).status().code(), absl::StatusCode::kPermissionDenied);
  bad = Layer(2);
  EXPECT_EQ(table_.Announce(bad).status().code(), absl::StatusCode::kInvalidArgument);
  bad = Layer(-1);
  EXPECT_EQ(table_.Announce(bad).status().code(), absl::StatusCode::kInvalidArgument);
  bad = Layer(0);
  bad.num_layers = 3;
  EXPECT_EQ(table_.Announce(bad).status().code(), absl::StatusCode::kInvalidArgument);
  bad = Layer(0);
  bad.length = 704;
  EXPECT_EQ(table_.Announce(bad).status().code(), absl::StatusCode::kInvalidArgument);
  bad = Layer(0);
  bad.attempt.request ^= 1;
  EXPECT_EQ(table_.Announce(bad).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(table_.Announce(Layer(0)).ok());
  EXPECT_EQ(table_.Announce(Layer(0)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LandingTableTest, RefusesAnOldGenerationForGood) {
  Grant();
  ASSERT_TRUE(table_.Abort(id_));
  EXPECT_EQ(table_.Announce(Layer(0)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(table_.Reserve({id_.request, 1}, Plan()).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(table_.Reserve(id_, Plan()).status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(table_.Reserve({id_.request, 3}, Plan()).ok());
  EXPECT_FALSE(table_.Abort(id_));
}

TEST_F(LandingTableTest, AbortWhileATransferRunsQuarantinesUntilItIsQuiet) {
  Grant();
  auto running = table_.Announce(Layer(0));
  ASSERT_TRUE(running.ok());
  ASSERT_TRUE(table_.Abort(id_));
  EXPECT_EQ(arena_.usage().quarantined_bytes, 1'280);
  EXPECT_EQ(arena_.usage().quarantined_regions, 1);
  running->region[639] = std::byte{1};  // the transport may still write here
  clock_.AdvanceNs(10 * kSecondNs - 1);
  EXPECT_TRUE(table_.OverdueTokens().empty());
  clock_.AdvanceNs(1);
  EXPECT_EQ(table_.OverdueTokens(), std::vector<uint64_t>{running->token});
  EXPECT_FALSE(table_.Quiet(running->token, absl::OkStatus()).has_value());
  EXPECT_EQ(arena_.usage(), (ArenaUsage{.limit_bytes = 10'000}));
}

TEST_F(LandingTableTest, AbortWhileVerifyingFreesAfterTheVerdict) {
  Grant();
  auto running = table_.Announce(Layer(0));
  ASSERT_TRUE(running.ok());
  {
    auto landed = table_.Quiet(running->token, absl::OkStatus());
    ASSERT_TRUE(landed.has_value());
    ASSERT_TRUE(table_.Abort(id_));
    table_.Verified(running->token, absl::OkStatus());
    EXPECT_EQ(arena_.usage().quarantined_bytes, 1'280);  // `landed` still reads it
  }
  EXPECT_EQ(arena_.usage(), (ArenaUsage{.limit_bytes = 10'000}));
}

TEST_F(LandingTableTest, ABrokenTransferOrABadVerdictEndsTheAttemptOnce) {
  Grant();
  auto running = table_.Announce(Layer(0));
  ASSERT_TRUE(running.ok());
  EXPECT_FALSE(table_.Quiet(running->token, absl::UnavailableError("peer gone")).has_value());
  auto failures = table_.TakeFailures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].first, id_);
  EXPECT_TRUE(table_.TakeFailures().empty());

  id_.generation = 3;
  Grant();
  running = table_.Announce(Layer(1));
  ASSERT_TRUE(running.ok());
  ASSERT_TRUE(table_.Quiet(running->token, absl::OkStatus()).has_value());
  table_.Verified(running->token, absl::DataLossError("checksum"));
  failures = table_.TakeFailures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].second.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(arena_.usage(), (ArenaUsage{.limit_bytes = 10'000}));
}

TEST_F(LandingTableTest, LeaseIsRenewedByWordWhileAnAttemptIsLanding) {
  Grant();
  for (int i = 0; i < 5; ++i) {
    clock_.AdvanceNs(9 * kSecondNs);
    table_.Renew(id_);
    EXPECT_TRUE(table_.ExpireLeases().empty());
  }
  table_.Renew({id_.request, id_.generation + 1});  // another attempt's word does not count
  clock_.AdvanceNs(10 * kSecondNs);
  EXPECT_EQ(table_.ExpireLeases(), std::vector<AttemptId>{id_});
  table_.Renew(id_);  // too late: it has ended for good
  EXPECT_EQ(table_.landings(), 0);
  EXPECT_EQ(arena_.usage(), (ArenaUsage{.limit_bytes = 10'000}));
}

TEST_F(LandingTableTest, ATransferOfAnExpiredLeaseIsOverdueAtOnceAndANeighboursIsNot) {
  Grant();
  auto silent = table_.Announce(Layer(0));
  ASSERT_TRUE(silent.ok());
  clock_.AdvanceNs(5 * kSecondNs);
  id_ = {id_.request + 1, 1};
  Grant();
  auto neighbour = table_.Announce(Layer(0));
  ASSERT_TRUE(neighbour.ok());
  ASSERT_TRUE(table_.Abort(id_));
  clock_.AdvanceNs(5 * kSecondNs);
  EXPECT_EQ(table_.ExpireLeases().size(), 1u);
  EXPECT_EQ(table_.OverdueTokens(), std::vector<uint64_t>{silent->token});
  EXPECT_FALSE(table_.Quiet(silent->token, absl::OkStatus()).has_value());
  EXPECT_FALSE(table_.Quiet(neighbour->token, absl::OkStatus()).has_value());
  EXPECT_TRUE(table_.OverdueTokens().empty());
  EXPECT_EQ(arena_.usage(), (ArenaUsage{.limit_bytes = 10'000}));
}

TEST_F(LandingTableTest, LeaseEndsWithoutAnnouncementsAndIsRenewedByThem) {
  Grant();
  clock_.AdvanceNs(9 * kSecondNs);
  Land(0);
  clock_.AdvanceNs(9 * kSecondNs);
  EXPECT_TRUE(table_.ExpireLeases().empty());
  clock_.AdvanceNs(1 * kSecondNs);
  EXPECT_EQ(table_.ExpireLeases(), std::vector<AttemptId>{id_});
  EXPECT_EQ(arena_.usage(), (ArenaUsage{.limit_bytes = 10'000}));
  EXPECT_EQ(table_.Announce(Layer(1)).status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace anchorage::decode
