#include "router/ledger.h"

#include <gtest/gtest.h>

namespace anchorage::router {
namespace {

constexpr AttemptId kA{1, 1};
constexpr AttemptId kB{2, 1};

TEST(LedgerTest, ANodeThatHasNotSpokenHasNoHeadroom) {
  Ledger ledger;
  ledger.AddNode(1);
  EXPECT_EQ(ledger.headroom(1), 0);
  ledger.Correct(1, 100, 200);
  EXPECT_EQ(ledger.headroom(1), 100);
  EXPECT_EQ(ledger.limit(1), 200);
  EXPECT_EQ(ledger.headroom(9), 0);
}

TEST(LedgerTest, PromisesBindNewRequestsAndNotReservations) {
  Ledger ledger;
  ledger.AddNode(1);
  ledger.Correct(1, 100, 100);
  ledger.Promise(1, kA, 30);
  EXPECT_EQ(ledger.headroom(1), 100);
  EXPECT_EQ(ledger.unpromised(1), 70);
  ledger.Reserve(1, kA, 30);  // the promise becomes a reservation
  EXPECT_EQ(ledger.headroom(1), 70);
  EXPECT_EQ(ledger.unpromised(1), 70);
  EXPECT_EQ(ledger.promised_bytes(), 0);
  EXPECT_EQ(ledger.held_bytes(), 30);
}

TEST(LedgerTest, AStateContainsTheGrantsBeforeItAndNotTheReservationsAfter) {
  Ledger ledger;
  ledger.AddNode(1);
  ledger.Correct(1, 100, 100);
  ledger.Reserve(1, kA, 30);
  ledger.Grant(1, kA, 30);
  EXPECT_EQ(ledger.headroom(1), 70);
  ledger.Reserve(1, kB, 20);
  ledger.Correct(1, 70, 100);  // has kA in it
  EXPECT_EQ(ledger.headroom(1), 50);
  ledger.Release(1, kA);  // free at the node, which will say so itself
  EXPECT_EQ(ledger.headroom(1), 50);
  ledger.Correct(1, 100, 100);
  EXPECT_EQ(ledger.headroom(1), 80);
  ledger.Release(1, kB);
  EXPECT_EQ(ledger.held_bytes(), 0);
}

TEST(LedgerTest, ARefusalSilencesTheNodeUntilItsNextState) {
  Ledger ledger;
  ledger.AddNode(1);
  ledger.Correct(1, 100, 100);
  ledger.Reserve(1, kA, 30);
  ledger.Refuse(1, kA, 90);
  EXPECT_EQ(ledger.headroom(1), 0);
  EXPECT_EQ(ledger.held_bytes(), 0);
  ledger.Correct(1, 90, 100);
  EXPECT_EQ(ledger.headroom(1), 90);
}

TEST(LedgerTest, AnAttemptIsOnOneNodeOnly) {
  Ledger ledger;
  ledger.AddNode(1);
  ledger.AddNode(2);
  ledger.Promise(1, kA, 30);
  ledger.Reserve(2, kA, 30);
  EXPECT_EQ(ledger.promised_bytes(), 0);
  EXPECT_EQ(ledger.held_bytes(), 30);
  ledger.RemoveNode(2);
  EXPECT_EQ(ledger.held_bytes(), 0);
}

}  // namespace
}  // namespace anchorage::router
