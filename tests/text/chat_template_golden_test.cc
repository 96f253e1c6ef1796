// Prompts equal those of Jinja2 itself; scripts/golden/make_chat_template_golden.py made them.

#include <fstream>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/tiny_model.h"
#include "text/chat_template.h"

namespace anchorage::text {
namespace {

constexpr char kGoldenPath[] = "tests/text/golden/chat_templates.json";

std::string Joined(const std::vector<TextSegment>& segments) {
  std::string text;
  for (const TextSegment& segment : segments) text += segment.text;
  return text;
}

TEST(ChatTemplateGoldenTest, PromptsEqualJinjas) {
  std::ifstream file(kGoldenPath);
  ASSERT_TRUE(file) << kGoldenPath << " is missing; run in the repository's root";
  const nlohmann::json golden = nlohmann::json::parse(file);
  ChatTemplateOptions options;
  options.bos_token = golden.at("bos_token");
  options.eos_token = golden.at("eos_token");
  int failures_expected = 0;
  for (const nlohmann::json& one : golden.at("cases")) {
    const std::string name = one.at("name");
    const std::string source = golden.at("templates").at(name);
    const absl::StatusOr<ChatTemplate> chat_template = ChatTemplate::Parse(source, options);
    ASSERT_TRUE(chat_template.ok()) << name << ": " << chat_template.status();
    std::vector<ChatMessage> messages;
    for (const nlohmann::json& message : one.at("messages")) {
      messages.push_back({message.at("role"), message.at("content")});
    }
    const auto prompt = chat_template->Render(messages, one.at("add_generation_prompt"));
    if (one.at("prompt").is_null()) {
      ++failures_expected;
      EXPECT_EQ(prompt.status().code(), absl::StatusCode::kInvalidArgument) << name;
    } else {
      ASSERT_TRUE(prompt.ok()) << name << ": " << prompt.status();
      EXPECT_EQ(Joined(*prompt), one.at("prompt").get<std::string>()) << name;
    }
  }
  EXPECT_GT(failures_expected, 0);
}

// The golden file holds a copy of the model's template; it must be the one that is served.
TEST(ChatTemplateGoldenTest, TheModelsTemplateIsTheOneTested) {
  const absl::StatusOr<files::GgufFile> file = files::GgufFile::Open(testing::RealModelPath());
  ASSERT_TRUE(file.ok()) << file.status() << "; scripts/test.sh fetches the model";
  std::ifstream golden(kGoldenPath);
  const nlohmann::json json = nlohmann::json::parse(golden);
  EXPECT_EQ(std::string(file->GetString("tokenizer.chat_template").value()),
            json.at("templates").at("SmolLM2").get<std::string>());
}

}  // namespace
}  // namespace anchorage::text
