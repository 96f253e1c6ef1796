#include "eval/fidelity/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace anchorage::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// 2 layers, 2 query heads, 1 KV head.
CandidateResult Row(const std::string& method, double asked, double kl,
                    std::optional<double> answer) {
  CandidateResult row{.name = method,
                      .method = method,
                      .asked = asked,
                      .ratio = asked,
                      .bytes = static_cast<int64_t>(1000 / asked),
                      .kl = kl,
                      .js = kl / 4,
                      .top1 = 0.75,
                      .surprise = 2,
                      .answer = answer,
                      .later_answers = answer};
  if (method != "full") row.name += " " + std::to_string(static_cast<int>(asked)) + "x";
  row.cosine_low = 0.125;
  row.distance_bins.assign(kDistanceBins, 1);
  row.head_cosines = {1, 1, 1, 0.5f};
  row.logit_errors = {0.25, 0.75};
  row.residual_shares = {0.5f, 0.25f, 0.5f, 0.25f};
  return row;
}

// `compact` and `paper`: their divergences at 10x; at 20x four times as much.
PromptResult Result(const std::string& kind, double compact, double paper,
                    std::optional<double> answer = std::nullopt) {
  const auto lower = [&](double by) { return answer ? std::optional(*answer - by) : answer; };
  PromptResult result{.kind = kind, .seq_len = 4096, .commit = "c0ffee", .floor_kl = 1e-5};
  result.candidates = {Row("full", 1, 0, answer), Row("compact", 10, compact, lower(1)),
                       Row("compact", 20, 4 * compact, lower(2)), Row("paper", 10, paper, lower(3)),
                       Row("paper", 20, 4 * paper, lower(5))};
  return result;
}

std::vector<PromptResult> Results() {
  return {Result("prose", 0.01, 0.02), Result("prose", 0.04, 0.08),
          Result("retrieval", 0.02, 0.08, -1.0)};
}

TEST(ReportTest, GroupsAreByLengthAndKindThenAll) {
  std::vector<PromptResult> results = Results();
  results.push_back(Result("prose", 0.01, 0.02));
  results.back().seq_len = 100;
  results.back().reused = true;
  results.back().commit = "beef";
  const Report report = MakeReport(results);
  std::vector<std::string> names;
  for (const Group& group : report.groups) {
    names.push_back(std::to_string(group.seq_len) + " " + group.kind + " " +
                    std::to_string(group.prompts) + " " + std::to_string(group.reused));
  }
  EXPECT_THAT(names, ElementsAre("100 prose 1 1", "100 all 1 1", "4096 prose 2 0",
                                 "4096 retrieval 1 0", "4096 all 3 0"));
  EXPECT_THAT(report.commits, ElementsAre("c0ffee", "beef"));
}

TEST(ReportTest, MeansByHand) {
  const Report report = MakeReport(Results());
  const CandidateSummary* prose = report.groups[0].Find("compact 10x");
  ASSERT_NE(prose, nullptr);
  EXPECT_NEAR(prose->kl.estimate, 0.02, 1e-12);  // sqrt(0.01 * 0.04)
  EXPECT_NEAR(prose->mean_kl, 0.025, 1e-12);
  EXPECT_NEAR(prose->js, 0.00625, 1e-12);
  EXPECT_LE(prose->kl.low, prose->kl.estimate);
  EXPECT_GE(prose->kl.high, prose->kl.estimate);
  EXPECT_FALSE(prose->answer);
  ASSERT_TRUE(prose->logit_error);
  EXPECT_NEAR(*prose->logit_error, 0.5, 1e-12);
  EXPECT_NEAR(prose->distance_shares.back(), 1, 1e-12);
  EXPECT_NEAR(prose->distance_shares.front(), 1.0 / kDistanceBins, 1e-12);
  const CandidateSummary* all = report.groups[2].Find("paper 20x");
  ASSERT_NE(all, nullptr);
  ASSERT_TRUE(all->answer);
  EXPECT_EQ(all->answer->estimate, -5);  // of the one prompt that has an answer
  EXPECT_EQ(report.groups[2].Find("paper 7x"), nullptr);
  EXPECT_NEAR(report.groups[0].Find("full")->kl.estimate, kLeastNats, 1e-15);
}

TEST(ReportTest, ComparesEqualRatiosPromptByPrompt) {
  const Report report = MakeReport(Results());
  const std::vector<Comparison>& rows = report.groups[0].comparisons;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "paper 10x");
  EXPECT_EQ(rows[0].reference, "compact 10x");
  EXPECT_EQ(rows[1].name, "paper 20x");
  // Twice as far on each prompt, so there is no doubt about it.
  EXPECT_NEAR(rows[0].kl_ratio.estimate, 2, 1e-9);
  EXPECT_NEAR(rows[0].kl_ratio.low, 2, 1e-9);
  EXPECT_NEAR(rows[0].kl_ratio.high, 2, 1e-9);
  const Comparison& all = report.groups[2].comparisons[1];
  EXPECT_NEAR(all.kl_ratio.estimate, std::cbrt(2.0 * 2 * 4), 1e-9);
  ASSERT_TRUE(all.answer);
  EXPECT_EQ(all.answer->estimate, -3);
}

TEST(ReportTest, TheTableSaysWhatWasMeasured) {
  const std::string text = ToMarkdown(MakeReport(Results()), "A head.");
  EXPECT_THAT(text, HasSubstr("A head.\n"));
  EXPECT_THAT(text, HasSubstr("## 4096 tokens, prose (prompts: 2)"));
  EXPECT_THAT(text, HasSubstr("| compact 10x | 100 | 10.00x | 0.0200 ("));
  EXPECT_THAT(text, HasSubstr("| 75.0 % | 2.0000 | - | - | 12.5 % | 0.500 |"));
  EXPECT_THAT(text, HasSubstr("| full | 1000 | 1.00x |"));
  EXPECT_THAT(text, HasSubstr("| log p -1.00 | - |"));
  EXPECT_THAT(text, HasSubstr("| paper 10x | compact 10x | 1.000 | 2.00 (2.00 to 2.00) | - |"));
  EXPECT_THAT(text, Not(HasSubstr("another order")));
  EXPECT_THAT(text, HasSubstr("## 4096 tokens, all (prompts: 3)"));
  std::vector<PromptResult> prose = {Result("prose", 0.01, 0.02)};
  prose.front().reused = true;
  const std::string one = ToMarkdown(MakeReport(prose), "A head.");
  EXPECT_THAT(one, HasSubstr("1 of them contain text of an earlier prompt"));
  EXPECT_THAT(one, Not(HasSubstr("tokens, all")));
}

TEST(ReportTest, JsonHasTheSameFigures) {
  const auto json = nlohmann::json::parse(ToJson(MakeReport(Results()), "A head."));
  EXPECT_EQ(json["setting"], "A head.");
  const auto& compact = json["groups"][0]["candidates"][1];
  EXPECT_EQ(compact["name"], "compact 10x");
  EXPECT_NEAR(compact["kl_geometric_nats"]["estimate"].get<double>(), 0.02, 1e-12);
  EXPECT_TRUE(compact["answer_log_p_change"].is_null());
  EXPECT_EQ(compact["residual_shares"].size(), 4u);
  EXPECT_NEAR(json["groups"][0]["comparisons"][0]["kl_ratio"]["high"].get<double>(), 2, 1e-9);
}

TEST(ReportTest, EveryLengthHasItsPlots) {
  std::vector<std::string> files;
  for (const NamedPlot& plot : MakePlots(MakeReport(Results()))) {
    files.push_back(plot.file);
    EXPECT_THAT(plot.svg, HasSubstr("</svg>"));
  }
  for (const char* file :
       {"kl_4096.svg", "answers_4096.svg", "cosines_4096.svg", "logit_errors_4096.svg",
        "head_cosines_compact_10x_4096.svg", "residuals_paper_20x_4096.svg"}) {
    EXPECT_THAT(files, ::testing::Contains(file));
  }
  std::vector<PromptResult> prose = {Result("prose", 0.01, 0.02)};
  for (const NamedPlot& plot : MakePlots(MakeReport(prose))) {
    EXPECT_THAT(plot.file, Not(HasSubstr("answers")));
  }
}

TEST(ReportTest, LinesRunByRatioWhateverTheOrderOfTheTable) {
  std::vector<PromptResult> turned = Results();
  for (PromptResult& result : turned) {
    std::swap(result.candidates[1], result.candidates[2]);
    std::swap(result.candidates[3], result.candidates[4]);
  }
  const std::vector<NamedPlot> plots = MakePlots(MakeReport(Results()));
  const std::vector<NamedPlot> others = MakePlots(MakeReport(turned));
  for (const size_t at : {size_t{0}, size_t{1}}) {  // divergence and answers
    EXPECT_EQ(plots[at].file, others[at].file);
    EXPECT_EQ(plots[at].svg, others[at].svg);
  }
}

TEST(ReportTest, AFigureThatIsNoNumberFallsShort) {
  const double nan = std::nan("");
  for (const size_t at : {size_t{0}, size_t{1}}) {
    std::vector<PromptResult> results = Results();
    results[at].floor_kl = nan;
    EXPECT_THAT(Shortfalls(MakeReport(results)), Not(IsEmpty())) << at;
    results = Results();
    results[at].candidates[1].kl = nan;
    EXPECT_THAT(Shortfalls(MakeReport(results)), Not(IsEmpty())) << at;
  }
}

TEST(ReportTest, ShortfallsAreNamed) {
  EXPECT_THAT(Shortfalls(MakeReport(Results())), IsEmpty());
  const auto expect = [](const PromptResult& bad, const std::string& what) {
    const std::vector<PromptResult> results = {bad};
    const std::vector<std::string> shortfalls = Shortfalls(MakeReport(results));
    ASSERT_FALSE(shortfalls.empty()) << what;
    EXPECT_THAT(shortfalls.front(), HasSubstr(what));
  };
  PromptResult bad = Result("prose", 0.01, 0.02);
  bad.floor_kl = 2e-3;
  expect(bad, "the full cache is 2.0e-03 nats from the uncompressed prefill");
  expect(Result("prose", 0.1, 0.2), "compact at 10x is 0.1000 nats from the full cache");
  expect(Result("prose", 0.03, 0.02), "compact at 10x is 0.0300 nats away, paper 0.0200");
  bad = Result("prose", 0.01, 0.02);
  bad.candidates[2].kl = 1;
  expect(bad, "compact at 20x is 1.0000 nats away, paper 0.0800");
  // Texts alone have to be near; of what is looked up only the paper's layout is a measure.
  EXPECT_THAT(Shortfalls(MakeReport(std::vector<PromptResult>{
                  Result("prose", 0.02, 0.03), Result("retrieval", 0.9, 1.0, -1.0)})),
              IsEmpty());
  // Elsewhere than at 4,096 tokens no distance is asked for.
  PromptResult shorter = Result("prose", 0.1, 0.2);
  shorter.seq_len = 1024;
  EXPECT_THAT(Shortfalls(MakeReport(std::vector<PromptResult>{shorter})), IsEmpty());
}

}  // namespace
}  // namespace anchorage::eval
