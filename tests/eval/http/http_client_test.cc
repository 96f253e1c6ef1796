#include "eval/http/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace anchorage::eval {
namespace {

using ::testing::HasSubstr;

TEST(ParseEndpointTest, TakesAddressesApart) {
  EXPECT_EQ(ParseEndpoint("http://localhost:8000/v1")->ToString(), "http://localhost:8000/v1");
  EXPECT_EQ(ParseEndpoint("http://localhost:8000/v1/")->path, "/v1");
  EXPECT_EQ(ParseEndpoint("http://host")->port, "80");
  EXPECT_EQ(ParseEndpoint("http://[::1]:9/v1")->host, "::1");
  EXPECT_EQ(ParseEndpoint("http://[::1]:9/v1")->ToString(), "http://[::1]:9/v1");
  EXPECT_EQ(ParseEndpoint("http://[fe80::2]")->Authority(), "[fe80::2]:80");
  for (const char* bad : {"https://host/v1", "host:80", "http://", "http://:80/v1", "http://h:x",
                          "http://h:70000", "http://h:"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseEndpoint(bad).status())) << bad;
  }
}

TEST(PostJsonTest, NobodyThereIsUnavailable) {
  // Port 1 is reserved and never listened on here.
  const auto reply = PostJson({"127.0.0.1", "1", "/v1"}, "/completions", "{}", "", 5);
  EXPECT_TRUE(absl::IsUnavailable(reply.status())) << reply.status();
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("http://127.0.0.1:1/v1"));
}

}  // namespace
}  // namespace anchorage::eval
