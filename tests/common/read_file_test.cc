#include "common/read_file.h"

#include <cstdio>
#include <string>

#include "gtest/gtest.h"

namespace anchorage {
namespace {

// Written to the test's folder; removed with it.
std::string WriteFile(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  EXPECT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
  std::fclose(file);
  return path;
}

TEST(ReadFileTest, ReturnsEveryByte) {
  const std::string bytes = std::string("a\0b\r\n", 5) + std::string(200'000, 'x');
  EXPECT_EQ(*ReadFile(WriteFile("bytes", bytes)), bytes);
  EXPECT_EQ(*ReadFile(WriteFile("empty", "")), "");
}

TEST(ReadFileTest, SaysWhatCannotBeRead) {
  const absl::Status missing = ReadFile("/no/such/file").status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_EQ(missing.message(), "/no/such/file: no such file");
  const absl::Status directory = ReadFile("/tmp").status();
  EXPECT_TRUE(absl::IsInvalidArgument(directory));
  EXPECT_EQ(directory.message(), "/tmp: cannot read: Is a directory");
}

TEST(ReadSecretFileTest, TakesTheFirstLine) {
  EXPECT_EQ(*ReadSecretFile("--f", WriteFile("secret", "s3cret\nmore\n")), "s3cret");
  EXPECT_EQ(*ReadSecretFile("--f", WriteFile("dos", "s3cret\r\n")), "s3cret");
  EXPECT_EQ(*ReadSecretFile("--f", WriteFile("bare", "s3cret")), "s3cret");
  EXPECT_EQ(*ReadSecretFile("--f", ""), "");
}

TEST(ReadSecretFileTest, NamesTheFlag) {
  const std::string path = WriteFile("no_line", "\nsecond");
  EXPECT_EQ(ReadSecretFile("--f", path).status().message(),
            "--f: the first line of " + path + " is empty");
  EXPECT_EQ(ReadSecretFile("--f", "/none").status().message(), "--f: /none: no such file");
}

}  // namespace
}  // namespace anchorage
