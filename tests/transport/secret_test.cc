#include "transport/net/secret.h"

#include <gtest/gtest.h>

#include <string>

namespace anchorage::transport {
namespace {

TEST(SameSecretTest, ComparesEveryByteAndTheLength) {
  EXPECT_TRUE(SameSecret("", ""));
  EXPECT_TRUE(SameSecret("hunter2", "hunter2"));
  EXPECT_FALSE(SameSecret("hunter2", "hunter3"));
  EXPECT_FALSE(SameSecret("xunter2", "hunter2"));
  EXPECT_FALSE(SameSecret("", "hunter2"));
  EXPECT_FALSE(SameSecret("hunter2", ""));
  EXPECT_FALSE(SameSecret("aaaa", "aa"));  // a repetition is not the same
  EXPECT_FALSE(SameSecret("aa", "aaaa"));
  EXPECT_FALSE(SameSecret(std::string("\0", 1), ""));
}

}  // namespace
}  // namespace anchorage::transport
