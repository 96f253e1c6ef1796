#include "observe/host_port.h"

#include <gtest/gtest.h>

namespace anchorage::observe {
namespace {

TEST(HostPortTest, ReadsNamesAddressesAndBrackets) {
  EXPECT_EQ(ParseHostPort("localhost:0")->host, "localhost");
  EXPECT_EQ(ParseHostPort("127.0.0.1:65535")->port, 65535);
  EXPECT_EQ(ParseHostPort("[::1]:80")->host, "::1");
  EXPECT_EQ(ParseHostPort("[::1]:80")->ToString(), "[::1]:80");
  EXPECT_EQ(ParseHostPort("a:80")->ToString(), "a:80");
}

TEST(HostPortTest, RejectsWhatIsNoAddress) {
  for (const char* bad : {"", ":", "host", "host:", ":80", "host:65536", "host:-1", "host:8x",
                          "::1:80", "[]:80", "host: 80"}) {
    EXPECT_FALSE(ParseHostPort(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace anchorage::observe
