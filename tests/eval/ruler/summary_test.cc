#include "eval/ruler/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/ruler/report.h"

namespace anchorage::eval::ruler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

Result MakeResult(const std::string& task, int index, const std::string& setting, double score) {
  Result result;
  result.id = task + "/" + std::to_string(index);
  result.setting = setting;
  result.task = task;
  result.target_len = 1024;
  result.score = score;
  result.ratio = setting == "full" ? 1 : 20;
  result.kv_bytes = setting == "full" ? 20000 : 1000;
  result.answer = score > 0 ? "ref" + std::to_string(index) : "wrong";
  result.refs = {"ref" + std::to_string(index)};
  return result;
}

// Two tasks; the full cache solves vt 0 and 1 and qa_1 0, the compressed one vt 0 and qa_1 1.
std::vector<Result> TwoTasks() {
  return {MakeResult("vt", 0, "small", 1),   MakeResult("vt", 0, "full", 1),
          MakeResult("vt", 1, "small", 0),   MakeResult("vt", 1, "full", 1),
          MakeResult("vt", 2, "small", 0.5), MakeResult("vt", 2, "full", 0.5),
          MakeResult("qa_1", 0, "small", 0), MakeResult("qa_1", 0, "full", 1),
          MakeResult("qa_1", 1, "small", 1), MakeResult("qa_1", 1, "full", 0)};
}

TEST(SummaryTest, RawAndConditionalScoresByHand) {
  const Summary summary = Summarise(TwoTasks(), "full");
  EXPECT_TRUE(summary.has_yardstick);
  EXPECT_THAT(summary.settings, ElementsAre("full", "small"));
  EXPECT_THAT(summary.tasks, ElementsAre("vt", "qa_1"));
  ASSERT_THAT(summary.lengths, SizeIs(1));
  const SettingScore& small = summary.lengths[0].settings[1];
  EXPECT_EQ(small.setting, "small");
  EXPECT_EQ(small.ratio, 20);
  EXPECT_EQ(small.samples, 5);
  EXPECT_NEAR(small.tasks[0].score.estimate, 0.5, 1e-12);
  EXPECT_EQ(small.tasks[0].solved, 2);
  EXPECT_NEAR(small.tasks[0].on_solved, 0.5, 1e-12);
  EXPECT_EQ(small.tasks[1].solved, 1);
  EXPECT_EQ(small.tasks[1].on_solved, 0);
  EXPECT_NEAR(small.score, (0.5 + 0.5) / 2, 1e-12);
  EXPECT_NEAR(small.on_solved, 0.25, 1e-12);
  EXPECT_NEAR(small.difference.estimate, (2.5 - 3.5) / 5, 1e-12);
  EXPECT_NEAR(small.retained.estimate, 2.5 / 3.5, 1e-12);
  EXPECT_NEAR(small.mcnemar, 1, 1e-12);  // two against one
  EXPECT_EQ(small.shuffled, 0);
  const SettingScore& full = summary.lengths[0].settings[0];
  EXPECT_EQ(full.on_solved, 1);
  EXPECT_EQ(full.difference.high, 0);
}

TEST(SummaryTest, TheNegativeControlFindsAnswersThatFitAnything) {
  std::vector<Result> results = TwoTasks();
  for (Result& result : results) result.answer = "ref0 ref1 ref2";
  EXPECT_EQ(Summarise(results, "full").lengths[0].settings[0].shuffled, 1);
}

TEST(SummaryTest, WithoutAYardstickNothingIsCompared) {
  const Summary summary = Summarise(TwoTasks(), "absent");
  EXPECT_FALSE(summary.has_yardstick);
  EXPECT_TRUE(std::isnan(summary.lengths[0].settings[0].difference.estimate));
  EXPECT_THAT(ToMarkdown(summary), HasSubstr("no answers of 'absent'"));
}

TEST(SummaryTest, PasskeysStayOutOfTheMeanUnlessAlone) {
  std::vector<Result> results = TwoTasks();
  results.push_back(MakeResult("passkey", 0, "small", 1));
  results.back().depth = 0.25;
  for (int index = 1; index < 10; ++index) {
    results.push_back(MakeResult("passkey", index, "small", 0));
    results.push_back(MakeResult("passkey", index, "full", 1));
  }
  const Summary summary = Summarise(results, "full");
  const SettingScore& small = summary.lengths[0].settings[1];
  EXPECT_EQ(small.samples, 5 + 10);
  EXPECT_NEAR(small.score, 0.5, 1e-12);
  EXPECT_NEAR(small.difference.estimate, (2.5 - 3.5) / 5, 1e-12);
  EXPECT_NEAR(small.retained.estimate, 2.5 / 3.5, 1e-12);
  EXPECT_NEAR(small.mcnemar, 1, 1e-12);

  const std::vector<Result> alone(results.begin() + 10, results.end());
  const SettingScore& passkeys = Summarise(alone, "full").lengths[0].settings[1];
  EXPECT_NEAR(passkeys.score, 0.1, 1e-12);
  EXPECT_NEAR(passkeys.difference.estimate, -1, 1e-12);
  EXPECT_LT(passkeys.mcnemar, 0.01);
  ASSERT_THAT(summary.passkeys, SizeIs(1));
  EXPECT_EQ(summary.passkeys[0].depth, 0.25);
  EXPECT_THAT(summary.needles, SizeIs(0));
}

TEST(ReportTest, TableAndJsonSayTheSame) {
  const Summary summary = Summarise(TwoTasks(), "full");
  const std::string markdown = ToMarkdown(summary);
  EXPECT_THAT(markdown, HasSubstr("| vt | 3 | 83.3 | 50.0 |"));
  EXPECT_THAT(markdown, HasSubstr("| vt | 2 | 100.0 | 50.0 |"));
  EXPECT_THAT(markdown, HasSubstr("| small | 1000 B | 20.00x | 5 |"));
  const auto json = nlohmann::json::parse(ToJson(summary));
  const auto& small = json["lengths"][0]["settings"][1];
  EXPECT_EQ(small["setting"], "small");
  EXPECT_NEAR(small["score_on_solved"].get<double>(), 0.25, 1e-12);
  EXPECT_EQ(small["tasks"][0]["solved_by_yardstick"], 2);
}

TEST(ReportTest, WhatIsNotKnownIsADashAndNull) {
  const std::string markdown = ToMarkdown(Summarise(TwoTasks(), "absent"));
  EXPECT_THAT(markdown, Not(HasSubstr("nan")));
  const auto json = nlohmann::json::parse(ToJson(Summarise(TwoTasks(), "absent")));
  EXPECT_TRUE(json["lengths"][0]["settings"][0]["difference"]["estimate"].is_null());
  EXPECT_THAT(ToMarkdown(Summarise({}, "full")), HasSubstr("ruler-lite"));
}

TEST(ReportTest, WritesItsFiles) {
  const std::string folder = ::testing::TempDir() + "/ruler_report";
  std::filesystem::create_directories(folder);
  std::vector<Result> results = TwoTasks();
  results.push_back(MakeResult("passkey", 0, "compact 20x", 1));
  results.back().depth = 0;
  results.push_back(MakeResult("niah_single_1", 0, "full", 1));
  results.back().depth = 0.97;
  ASSERT_TRUE(WriteReport(Summarise(results, "full"), folder).ok());
  for (const char* name : {"report.md", "report.json", "compression.svg", "tasks_1024.svg",
                           "passkey_compact_20x.svg", "needles_full.svg"}) {
    EXPECT_GT(std::filesystem::file_size(folder + "/" + name), 100u) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(folder + "/passkey_full.svg"));
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(WriteReport(Summarise(results, "full"), folder).ok());
}

}  // namespace
}  // namespace anchorage::eval::ruler
