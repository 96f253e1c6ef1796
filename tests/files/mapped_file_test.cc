#include "files/mapped_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "gtest/gtest.h"

namespace anchorage::files {
namespace {

class MappedFileTest : public ::testing::Test {
 protected:
  MappedFileTest() {
    std::string pattern = ::testing::TempDir() + "/mapped_file_XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~MappedFileTest() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ / name; }

  std::filesystem::path directory_;
};

TEST_F(MappedFileTest, ShowsTheBytes) {
  std::ofstream(Path("file"), std::ios::binary) << "hello";
  absl::StatusOr<MappedFile> file = MappedFile::Open(Path("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  MappedFile moved = *std::move(file);
  ASSERT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(std::to_integer<char>(moved.bytes()[4]), 'o');
}

TEST_F(MappedFileTest, KeepsTheOldBytesWhenTheFileIsReplacedByRename) {
  std::ofstream(Path("file")) << "old";
  const absl::StatusOr<MappedFile> file = MappedFile::Open(Path("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::ofstream(Path("next")) << "n";
  std::filesystem::rename(Path("next"), Path("file"));
  EXPECT_EQ(std::to_integer<char>(file->bytes()[2]), 'd');
}

TEST_F(MappedFileTest, AcceptsAnEmptyFile) {
  std::ofstream(Path("empty"));
  const absl::StatusOr<MappedFile> file = MappedFile::Open(Path("empty"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(MappedFileTest, RefusesWhatIsNotAFile) {
  EXPECT_EQ(MappedFile::Open(Path("missing")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(directory_).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(Path("fifo")).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace anchorage::files
