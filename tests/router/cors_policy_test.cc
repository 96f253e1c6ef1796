#include "router/cors_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace anchorage::router {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

constexpr char kChat[] = "https://chat.example.org";

TEST(CorsPolicyTest, SaysNothingByDefault) {
  EXPECT_THAT(CorsPolicy().ForAnswer(kChat), IsEmpty());
  EXPECT_THAT(CorsPolicy().ForPreflight(kChat, "POST", "authorization"), IsEmpty());
}

TEST(CorsPolicyTest, AllowsTheOriginsOfTheListAndNoOther) {
  const CorsPolicy policy = *CorsPolicy::Create({kChat, "http://localhost:3000"});
  EXPECT_THAT(policy.ForAnswer(kChat), Contains(Pair("Access-Control-Allow-Origin", kChat)));
  EXPECT_THAT(policy.ForAnswer("http://localhost:3000"),
              Contains(Pair("Access-Control-Allow-Origin", "http://localhost:3000")));
  for (const char* other : {"", "null", "https://chat.example.org.evil.org",
                            "http://chat.example.org", "https://chat.example.org:8443"}) {
    EXPECT_THAT(policy.ForAnswer(other), ElementsAre(Pair("Vary", "Origin"))) << other;
    EXPECT_THAT(policy.ForPreflight(other, "POST", "authorization"), IsEmpty()) << other;
  }
}

TEST(CorsPolicyTest, AStarAllowsAll) {
  const CorsPolicy policy = *CorsPolicy::Create({"*"});
  EXPECT_THAT(policy.ForAnswer("https://any.where"),
              Contains(Pair("Access-Control-Allow-Origin", "*")));
  EXPECT_THAT(policy.ForAnswer(""), IsEmpty());
}

TEST(CorsPolicyTest, APreflightAllowsTheRoutesMethodsAndTheHeadersAskedFor) {
  const CorsPolicy policy = *CorsPolicy::Create({kChat});
  EXPECT_THAT(policy.ForPreflight(kChat, "POST, OPTIONS", "authorization,x-stainless-lang"),
              ElementsAre(Pair("Access-Control-Allow-Methods", "POST, OPTIONS"),
                          Pair("Access-Control-Allow-Headers", "authorization,x-stainless-lang"),
                          Pair("Access-Control-Max-Age", "600")));
  for (const char* bad : {"", "a\r\nSet-Cookie: x", "a: b", "\x80"}) {
    EXPECT_THAT(policy.ForPreflight(kChat, "POST", bad),
                Not(Contains(Pair("Access-Control-Allow-Headers", ::testing::_))))
        << bad;
  }
}

TEST(CorsPolicyTest, RefusesWhatIsNoOrigin) {
  for (const char* bad : {"", "chat.example.org", "https://", "://x", "https://chat.example.org/",
                          "https://a b", "https://*.example.org", "https://u@x", "HTTPS://X"}) {
    EXPECT_EQ(CorsPolicy::Create({kChat, bad}).status().code(), absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

}  // namespace
}  // namespace anchorage::router
