// The ids of 200 strings equal llama.cpp's; scripts/golden/make_tokenizer_golden.py made them.

#include <fstream>
#include <iterator>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/tiny_model.h"
#include "text/tokenizer.h"

namespace anchorage::text {
namespace {

constexpr char kGoldenPath[] = "tests/text/golden/tokenizer_smollm2.json";

TEST(TokenizerGoldenTest, IdsEqualLlamaCpps) {
  const absl::StatusOr<files::GgufFile> file = files::GgufFile::Open(testing::RealModelPath());
  ASSERT_TRUE(file.ok()) << file.status() << "; scripts/test.sh fetches the model";
  const absl::StatusOr<Tokenizer> tokenizer = Tokenizer::FromGguf(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::ifstream golden(kGoldenPath);
  ASSERT_TRUE(golden) << kGoldenPath << " is missing; run in the repository's root";
  const nlohmann::json cases = nlohmann::json::parse(golden).at("cases");
  ASSERT_EQ(cases.size(), 200u);
  for (const nlohmann::json& one : cases) {
    std::string text;
    ASSERT_TRUE(absl::Base64Unescape(one.at("text").get<std::string>(), &text));
    EXPECT_EQ(tokenizer->Encode(text), one.at("ids").get<std::vector<int32_t>>())
        << '"' << absl::CHexEscape(text) << '"';
  }
}

}  // namespace
}  // namespace anchorage::text
