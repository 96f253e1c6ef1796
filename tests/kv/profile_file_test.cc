#include "kv/profile_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace anchorage::kv {
namespace {

using testing::HasSubstr;

class ProfileFileTest : public testing::Test {
 protected:
  ProfileFileTest()
      : path_(testing::TempDir() + "/profile_" + std::to_string(::getpid()) + ".json") {}
  ~ProfileFileTest() override { std::filesystem::remove(path_); }

  // What reading this text says.
  std::string Read(const std::string& text) const {
    std::ofstream(path_) << text;
    return ReadProfileFile(path_).status().ToString();
  }

  const std::string path_;
};

TEST_F(ProfileFileTest, RoundTrips) {
  const ProfileFile file = {"Some model", "two texts", {2, 3, 64}, {{0, 500}, {90, 10, 70, 5}}};
  ASSERT_TRUE(WriteProfileFile(path_, file).ok());
  const auto read = ReadProfileFile(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->model, "Some model");
  EXPECT_EQ(read->calibration, "two texts");
  EXPECT_EQ(read->geometry.num_kv_heads, 3);
  EXPECT_EQ(read->profile.millibits, file.profile.millibits);
  EXPECT_EQ(read->profile.nanonats, file.profile.nanonats);
  EXPECT_EQ(read->profile.num_kv_heads, 3) << "so that it is refused for another model";
  EXPECT_EQ(read->profile.head_dim, 64);
}

TEST_F(ProfileFileTest, SaysWhatIsWrong) {
  const std::string head =
      R"({"format": "anchorage-kv-profile", "version": 1, "kv_heads": 3, "head_dim": 64, )";
  EXPECT_THAT(Read(""), HasSubstr("not a profile"));
  EXPECT_THAT(Read("[1, 2"), HasSubstr("not a profile"));
  EXPECT_THAT(Read(R"({"format": "gguf"})"), HasSubstr("not a profile"));
  EXPECT_THAT(Read(R"({"format": "anchorage-kv-profile", "version": 2})"), HasSubstr("version 2"));
  EXPECT_THAT(Read(head + R"("millibits": [0, 5]})"), HasSubstr("'layers'"));
  EXPECT_THAT(Read(head + R"("layers": 1})"), HasSubstr("must be there"));
  EXPECT_THAT(Read(head + R"("layers": 1, "millibits": [0, "x"], "nanonats": []})"),
              HasSubstr("'millibits'"));
  EXPECT_THAT(Read(head + R"("layers": 1, "millibits": [0, 5], "nanonats": [[7]]})"),
              HasSubstr("1 numbers for 2 rates"));
  EXPECT_THAT(Read(head + R"("layers": 1, "millibits": [0, 5], "nanonats": [[7, 1.5]]})"),
              HasSubstr("'nanonats'"));
  EXPECT_THAT(Read(head + R"("layers": 2, "millibits": [0, 5], "nanonats": [[7, 1]]})"),
              HasSubstr("1 layers, the model 2"));
  EXPECT_THAT(Read(head + R"("layers": 1, "millibits": [0, 5], "nanonats": 3})"),
              HasSubstr("'nanonats'"));
  EXPECT_THAT(Read(head + R"("layers": 0, "millibits": [], "nanonats": []})"),
              HasSubstr("no rates"));
  EXPECT_THAT(Read(head + R"("layers": 1, "millibits": [0, 5], "nanonats": [[7, 1]]})"), "OK");
}

TEST_F(ProfileFileTest, NamesAFileThatIsNotThere) {
  const auto status = ReadProfileFile(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_EQ(WriteProfileFile("/nowhere/x", {}).code(), absl::StatusCode::kNotFound);
}

// The one that comes with the default model.
TEST(ShippedProfileTest, BelongsToItsModelAndMovesBytes) {
  const auto file = ReadProfileFile("profiles/SmolLM2-135M-Instruct.Q4_1.kvprofile.json");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->geometry.num_layers, 30);
  EXPECT_EQ(file->geometry.num_kv_heads, 3);
  EXPECT_EQ(file->geometry.head_dim, 64);
  PlanOptions options;
  options.profile = file->profile;
  ASSERT_EQ(CheckPlan(file->geometry, options, 4096, 0), "");
  const RequestPlan plan = PlanRequest(file->geometry, options, 4096, 0);
  // Layers 7, 18 and 20 matter most, 11 and 27 least.
  for (const size_t more : {7u, 18u, 20u}) {
    for (const size_t less : {11u, 27u}) {
      EXPECT_GT(plan.layers[more].key_slots, 4 * plan.layers[less].key_slots) << more << less;
    }
  }
}

TEST(ProfilePathTest, StandsBesideTheModel) {
  EXPECT_EQ(ProfilePathFor("/models/a.gguf"), "/models/a.kvprofile.json");
  EXPECT_EQ(ProfilePathFor("a"), "a.kvprofile.json");
}

}  // namespace
}  // namespace anchorage::kv
