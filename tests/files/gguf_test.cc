#include "files/gguf.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files/gguf_builder.h"

namespace anchorage::files {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kRow("\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40",
                                16);  // 1 2 3 4 as f32

GgufBuilder SmallFile() {
  const float floats[] = {0.5f, -2.0f};
  const int32_t ints[] = {-1, 7};
  const std::string strings[] = {"one", "", "th\xC3\xB6ree"};
  GgufBuilder builder;
  builder.AddString("general.name", "small")
      .AddU32("count", 42)
      .Add("byte", GgufValueType::kUint8, uint8_t{200})
      .Add("negative", GgufValueType::kInt16, int16_t{-3})
      .Add("huge", GgufValueType::kUint64, uint64_t{1} << 63)
      .Add("half", GgufValueType::kFloat32, 0.5f)
      .Add("precise", GgufValueType::kFloat64, 0.25)
      .AddBool("yes", true)
      .AddStrings("strings", strings)
      .AddArray<float>("floats", GgufValueType::kFloat32, floats)
      .AddArray<int32_t>("ints", GgufValueType::kInt32, ints)
      .AddTensor("b.weight", TensorType::kF32, {2, 2}, kRow)
      .AddTensor("a.weight", TensorType::kQ4_1, {32}, std::string(20, '\x11'))
      .AddTensor("c.weight", TensorType::kQ6_K, {256}, std::string(210, '\x22'));
  return builder;
}

class GgufTest : public ::testing::Test {
 protected:
  GgufTest() : memory_(SmallFile().Build()), file_(GgufFile::Parse(memory_.bytes()).value()) {}

  AlignedFile memory_;
  GgufFile file_;
};

TEST_F(GgufTest, ReadsScalars) {
  EXPECT_EQ(file_.GetString("general.name").value(), "small");
  EXPECT_EQ(file_.GetU32("count").value(), 42u);
  EXPECT_EQ(file_.GetF32("half").value(), 0.5f);
  EXPECT_EQ(file_.GetF32("precise").value(), 0.25f);
  EXPECT_TRUE(file_.GetBool("yes").value());
}

TEST_F(GgufTest, ReadsArrays) {
  EXPECT_THAT(file_.GetStringArray("strings").value(), ElementsAre("one", "", "th\xC3\xB6ree"));
  EXPECT_THAT(file_.GetF32Array("floats").value(), ElementsAre(0.5f, -2.0f));
  EXPECT_THAT(file_.GetI32Array("ints").value(), ElementsAre(-1, 7));
}

TEST_F(GgufTest, AcceptsAnyIntegerWidthThatFits) {
  EXPECT_EQ(file_.GetU32("byte").value(), 200u);
  EXPECT_EQ(file_.GetI64("negative").value(), -3);
  EXPECT_EQ(file_.GetU32("negative").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file_.GetU32("huge").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file_.GetI64("huge").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GgufTest, TellsMissingFromWrongType) {
  const absl::Status missing = file_.GetU32("nothing").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("nothing"));
  const absl::Status wrong = file_.GetU32("half").status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("half is of type f32"));
  EXPECT_EQ(file_.GetF32("count").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file_.GetBool("count").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file_.GetString("count").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file_.GetStringArray("floats").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file_.GetF32Array("ints").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file_.GetI32Array("count").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GgufTest, ListsTensorsInFileOrder) {
  ASSERT_EQ(file_.tensors().size(), 3u);
  EXPECT_EQ(file_.tensors()[0].name, "b.weight");
  EXPECT_EQ(file_.tensors()[1].name, "a.weight");
}

TEST_F(GgufTest, ViewsTensorBytes) {
  const TensorView* const tensor = file_.FindTensor("b.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->type, TensorType::kF32);
  EXPECT_THAT(tensor->dims, ElementsAre(2, 2));
  EXPECT_EQ(tensor->num_elements(), 4);
  ASSERT_EQ(tensor->data.size(), 16u);
  EXPECT_EQ(std::memcmp(tensor->data.data(), kRow.data(), 16), 0);
  EXPECT_EQ(tensor->file_offset % 32, 0u);
  EXPECT_EQ(file_.bytes().data() + tensor->file_offset, tensor->data.data());
  EXPECT_EQ(file_.FindTensor("a.weight")->data.size(), 20u);
  EXPECT_EQ(file_.FindTensor("missing"), nullptr);
}

TEST_F(GgufTest, ParsesTensorTypesThatNothingComputesWith) {
  EXPECT_EQ(TensorTypeName(file_.FindTensor("c.weight")->type), "Q6_K");
}

TEST_F(GgufTest, PrintsMetadata) {
  std::vector<std::string> printed;
  for (const MetadataEntry& entry : file_.metadata()) {
    printed.push_back(std::string(entry.key) + " = " + entry.ToString(2, 4));
  }
  EXPECT_THAT(printed,
              ElementsAre("general.name = \"smal...\"", "count = 42", "byte = 200", "negative = -3",
                          "huge = 9223372036854775808", "half = 0.5", "precise = 0.25",
                          "yes = true", "strings = [\"one\", \"\", ...] (3)",
                          "floats = [0.5, -2] (2)", "ints = [-1, 7] (2)"));
}

TEST_F(GgufTest, SurvivesAMove) {
  GgufFile moved = std::move(file_);
  EXPECT_EQ(moved.GetU32("count").value(), 42u);
  EXPECT_NE(moved.FindTensor("a.weight"), nullptr);
}

TEST_F(GgufTest, OpensFromDisk) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "gguf_test_small.gguf";
  std::ofstream(path, std::ios::binary) << SmallFile().Build();
  const absl::StatusOr<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->GetU32("count").value(), 42u);
  std::ofstream(path, std::ios::binary) << "GGUX";
  const absl::Status bad = GgufFile::Open(path).status();
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad.message()), HasSubstr(path.string()));
  std::filesystem::remove(path);
  EXPECT_EQ(GgufFile::Open(path).status().code(), absl::StatusCode::kNotFound);
}

TEST(GgufAlignmentTest, HonoursTheFilesOwn) {
  GgufBuilder builder;
  builder.alignment = 128;
  builder.AddU32("general.alignment", 128)
      .AddTensor("a", TensorType::kF32, {4}, kRow)
      .AddTensor("b", TensorType::kF32, {4}, kRow);
  const AlignedFile memory(builder.Build());
  const absl::StatusOr<GgufFile> file = GgufFile::Parse(memory.bytes());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->alignment(), 128u);
  EXPECT_EQ(file->FindTensor("b")->file_offset % 128, 0u);
}

TEST(GgufEmptyTest, AcceptsAFileWithNothingInIt) {
  const AlignedFile memory(GgufBuilder().Build());
  const absl::StatusOr<GgufFile> file = GgufFile::Parse(memory.bytes());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->tensors().empty());
  EXPECT_TRUE(file->metadata().empty());
}

}  // namespace
}  // namespace anchorage::files
