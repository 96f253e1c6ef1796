#include "worker/wire.h"

#include "common/wire_version.h"
#include "gtest/gtest.h"

namespace anchorage::worker {
namespace {

proto::Identity Identity() {
  proto::Identity identity;
  identity.set_wire_version(kWireVersion);
  identity.set_model_fingerprint(11);
  identity.set_plan_fingerprint(22);
  identity.set_model_name("tiny");
  identity.set_kv_mode("anchorkv 20x");
  return identity;
}

TEST(IdentityTest, EachDifferenceIsNamed) {
  EXPECT_TRUE(CheckSameIdentity(Identity(), Identity()).ok());
  proto::Identity other = Identity();
  other.set_wire_version(kWireVersion + 1);
  EXPECT_NE(CheckSameIdentity(Identity(), other).message().find("wire version"),
            absl::string_view::npos);
  other = Identity();
  other.set_model_fingerprint(12);
  EXPECT_NE(CheckSameIdentity(Identity(), other).message().find("models differ"),
            absl::string_view::npos);
  other = Identity();
  other.set_plan_fingerprint(23);
  other.set_kv_mode("none");
  const absl::Status status = CheckSameIdentity(Identity(), other);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("anchorkv 20x"), absl::string_view::npos);
  EXPECT_NE(status.message().find("none"), absl::string_view::npos);
}

TEST(RouterHelloTest, ARouterMayNotKnowTheModelYetButMustAgreeOnThePlan) {
  proto::Hello hello;
  hello.set_role(proto::ROLE_ROUTER);
  *hello.mutable_identity() = Identity();
  hello.mutable_identity()->set_model_fingerprint(0);
  EXPECT_TRUE(CheckRouterHello(Identity(), hello).ok());
  hello.mutable_identity()->set_model_fingerprint(12);
  EXPECT_FALSE(CheckRouterHello(Identity(), hello).ok());
  hello.mutable_identity()->set_model_fingerprint(0);
  hello.mutable_identity()->set_plan_fingerprint(1);
  EXPECT_FALSE(CheckRouterHello(Identity(), hello).ok());
}

TEST(RouterHelloTest, OnlyRoutersMayConnect) {
  proto::Hello hello;
  hello.set_role(proto::ROLE_DECODE);
  *hello.mutable_identity() = Identity();
  EXPECT_FALSE(CheckRouterHello(Identity(), hello).ok());
}

TEST(SamplingTest, WhatTheWireLeavesOutIsOff) {
  const model::SamplingParams params = FromProto(proto::Sampling());
  EXPECT_EQ(params.top_p, 1);
  EXPECT_EQ(params.repetition_penalty, 1);
  EXPECT_TRUE(model::CheckSampling(params, 100).ok());
}

TEST(SamplingTest, EveryFieldArrives) {
  proto::Sampling sampling;
  sampling.set_temperature(0.5f);
  sampling.set_top_k(3);
  sampling.set_top_p(0.9f);
  sampling.set_min_p(0.1f);
  sampling.set_seed(77);
  sampling.set_repetition_penalty(1.5f);
  sampling.set_presence_penalty(0.25f);
  sampling.set_frequency_penalty(-0.5f);
  sampling.set_min_tokens(4);
  sampling.set_ignore_eos(true);
  sampling.add_stop_ids(9);
  (*sampling.mutable_logit_bias())[5] = -2;
  const model::SamplingParams params = FromProto(sampling);
  EXPECT_EQ(params.temperature, 0.5f);
  EXPECT_EQ(params.top_k, 3);
  EXPECT_EQ(params.top_p, 0.9f);
  EXPECT_EQ(params.min_p, 0.1f);
  EXPECT_EQ(params.seed, 77u);
  EXPECT_EQ(params.repetition_penalty, 1.5f);
  EXPECT_EQ(params.presence_penalty, 0.25f);
  EXPECT_EQ(params.frequency_penalty, -0.5f);
  EXPECT_EQ(params.min_tokens, 4);
  EXPECT_TRUE(params.ignore_eos);
  EXPECT_EQ(params.stop_ids, std::vector<int32_t>{9});
  EXPECT_EQ(params.logit_bias, (std::vector<std::pair<int32_t, float>>{{5, -2.f}}));
}

TEST(EndedMessageTest, SaysWhoWhereAndWhy) {
  const proto::Envelope message =
      EndedMessage({7, 2}, "req-1", absl::AbortedError("gone"), "transfer");
  EXPECT_EQ(FromProto(message.ended().attempt()), (AttemptId{7, 2}));
  EXPECT_EQ(message.ended().attempt().request_id(), "req-1");
  EXPECT_EQ(message.ended().status(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_EQ(message.ended().stage(), "transfer");
  EXPECT_EQ(message.ended().message(), "gone");
}

}  // namespace
}  // namespace anchorage::worker
