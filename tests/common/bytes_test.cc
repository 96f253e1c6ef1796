#include "common/bytes.h"

#include "gtest/gtest.h"

namespace anchorage {
namespace {

TEST(BytesTest, ParsesNumbersWithUnits) {
  EXPECT_EQ(*ParseBytes("4096"), 4096);
  EXPECT_EQ(*ParseBytes("1KiB"), 1024);
  EXPECT_EQ(*ParseBytes("1.5GiB"), 1610612736);
  EXPECT_EQ(*ParseBytes("2GB"), 2000000000);
  EXPECT_EQ(*ParseBytes("0"), 0);
}

TEST(BytesTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", "-1", "1 GiB", "GiB", "1gib", "1e9", "1.2.3", "99999999TiB"}) {
    EXPECT_EQ(ParseBytes(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(BytesTest, FormatsWithOneDecimal) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(102'968), "100.6 KiB");
  EXPECT_EQ(FormatBytes(int64_t{3} << 30), "3.0 GiB");
}

TEST(BytesTest, CheckedMulFindsOverflow) {
  EXPECT_EQ(*CheckedMul(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_FALSE(CheckedMul(int64_t{1} << 32, int64_t{1} << 31).ok());
}

}  // namespace
}  // namespace anchorage
