// The words of each task, without a tokenizer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "eval/ruler/families.h"
#include "eval/ruler/haystack.h"
#include "eval/ruler/score.h"
#include "eval/ruler/task.h"
#include "eval/ruler/words.h"

namespace anchorage::eval::ruler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kGoldenPath[] = "tests/eval/ruler/golden/drafts.json";

Brief MakeBrief(const std::string& id, int64_t units) { return {7, id, 1024, units, 0.5}; }

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TasksTest, AreTheThirteenAndThePasskey) {
  EXPECT_THAT(AllTasks(), SizeIs(14));
  EXPECT_THAT(*TasksByName({"all"}), SizeIs(14));
  const auto two = TasksByName({"vt", "qa_2"});
  ASSERT_TRUE(two.ok());
  EXPECT_EQ((*two)[1].name, "qa_2");
  EXPECT_THAT(*TasksByName({"vt", "qa_2", "vt"}), SizeIs(2)) << "each once";
  const absl::Status unknown = TasksByName({"vt", "niah"}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(unknown));
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("'niah' is no task; there are: all, niah_"));
}

// The drafts of a seed are pinned, word for word. After a wanted change, run with
// ANCHORAGE_WRITE_GOLDEN=1.
TEST(TasksTest, DraftsAreThoseOfTheGoldenFile) {
  nlohmann::ordered_json drafts;
  for (const Task& task : AllTasks()) {
    const Draft draft = task.write(MakeBrief(std::string(task.name) + "/golden", 6));
    drafts[std::string(task.name)] = {
        {"prompt", draft.prompt}, {"cue", draft.cue}, {"refs", draft.refs}, {"depth", draft.depth}};
  }
  if (std::getenv("ANCHORAGE_WRITE_GOLDEN") != nullptr) {
    std::ofstream(kGoldenPath) << drafts.dump(1) << "\n";
  }
  std::ifstream file(kGoldenPath);
  ASSERT_TRUE(file) << kGoldenPath << " is missing; run in the repository's root";
  const auto golden = nlohmann::ordered_json::parse(file);
  for (const auto& [task, draft] : drafts.items()) EXPECT_EQ(draft, golden.at(task)) << task;
}

TEST(TasksTest, TheReferencesAreInThePromptAndTheCueGivesNoneAway) {
  for (const Task& task : AllTasks()) {
    const Draft draft = task.write(MakeBrief(std::string(task.name) + "/1", 40));
    EXPECT_EQ(Score(Metric::kAllRefs, draft.prompt, draft.refs), 1) << task.name;
    EXPECT_EQ(Score(Metric::kAllRefs, draft.cue, draft.refs), 0) << task.name;
  }
}

TEST(TasksTest, OnlyTheHaystackDependsOnItsSize) {
  for (const Task& task : AllTasks()) {
    const std::string id = std::string(task.name) + "/1";
    const Draft small = task.write(MakeBrief(id, 20));
    const Draft large = task.write(MakeBrief(id, 400));
    EXPECT_EQ(small.refs, large.refs) << task.name;
    EXPECT_EQ(small.cue, large.cue) << task.name;
    EXPECT_LT(small.prompt.size() * 2, large.prompt.size()) << task.name;
  }
}

TEST(TasksTest, SamplesAndSeedsDiffer) {
  for (const Task& task : AllTasks()) {
    const Draft one = task.write({1, "a", 1024, 20, 0.5});
    EXPECT_NE(one.refs, task.write({1, "b", 1024, 20, 0.5}).refs) << task.name;
    EXPECT_NE(one.refs, task.write({2, "a", 1024, 20, 0.5}).refs) << task.name;
  }
}

TEST(NiahTest, TheNeedleStandsAtItsDepth) {
  std::set<double> depths;
  for (int i = 0; i < 60; ++i) {
    const Draft draft = NiahSingle2(MakeBrief("sample" + std::to_string(i), 200));
    const size_t needle = draft.prompt.find("One of the special magic");
    const double found = static_cast<double>(needle) / static_cast<double>(draft.prompt.size());
    EXPECT_NEAR(found, draft.depth, 0.05) << i;
    EXPECT_NEAR(draft.depth * 39, std::round(draft.depth * 39), 0.2) << "one of 40 depths";
    depths.insert(draft.depth);
  }
  EXPECT_GT(depths.size(), 20u);
  EXPECT_LT(*depths.begin(), 0.1);
  EXPECT_GT(*depths.rbegin(), 0.9);
}

TEST(NiahTest, NeedlesAmongNeedlesAllHaveTheirOwnKey) {
  const Draft draft = NiahMultikey2(MakeBrief("x", 500));
  std::istringstream lines(draft.prompt);
  std::set<std::string> keys;
  size_t needles = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("One of the special magic numbers for ")) continue;
    ++needles;
    keys.insert(line.substr(0, line.find(" is: ")));
  }
  EXPECT_EQ(needles, 501u);
  EXPECT_EQ(keys.size(), 501u);
  EXPECT_EQ(Count(draft.prompt, draft.refs[0]), 1u);
}

TEST(NiahTest, ManyNeedlesAreAllThere) {
  EXPECT_THAT(NiahMultivalue(MakeBrief("x", 100)).refs, SizeIs(4));
  EXPECT_THAT(NiahMultiquery(MakeBrief("x", 100)).refs, SizeIs(4));
  EXPECT_EQ(Count(NiahMultikey1(MakeBrief("x", 100)).prompt, "One of the special magic"), 4u);
}

TEST(VariableTrackingTest, TheChainLeadsToEveryVariable) {
  const Draft draft = VariableTracking(MakeBrief("x", 100));
  ASSERT_THAT(draft.refs, SizeIs(5));
  const size_t value = draft.prompt.find("VAR " + draft.refs[0] + " = ");
  ASSERT_NE(value, std::string::npos);
  size_t last = value;
  for (size_t i = 1; i < draft.refs.size(); ++i) {
    const size_t at = draft.prompt.find("VAR " + draft.refs[i] + " = VAR " + draft.refs[i - 1]);
    ASSERT_NE(at, std::string::npos) << i;
    EXPECT_GT(at, last) << "in order";
    last = at;
  }
}

TEST(CommonWordsTest, TenWordsComeUpMoreOftenThanAnyOther) {
  for (const int64_t target_len : {1024, 8192}) {
    const Draft draft = CommonWords({7, "x", target_len, 50, kNoDepth});
    ASSERT_THAT(draft.refs, SizeIs(10));
    const std::string list = draft.prompt.substr(draft.prompt.rfind("Below is a numbered list"));
    std::map<std::string, int> counts;
    std::istringstream words(list);
    for (std::string word; words >> word;) ++counts[word];
    for (const std::string& ref : draft.refs) EXPECT_EQ(counts[ref], target_len < 4096 ? 6 : 30);
  }
}

// At 8K all words have been used and are joined.
TEST(CommonWordsTest, NoOtherWordHasACommonOneInIt) {
  for (int sample = 0; sample < 40; ++sample) {
    const Draft draft = CommonWords({7, std::to_string(sample), 8192, 400, kNoDepth});
    std::set<std::string> list;
    std::istringstream words(draft.prompt.substr(draft.prompt.rfind("Below is a numbered list")));
    words.ignore(draft.prompt.size(), '\n');
    for (std::string word; words >> word && word != "Question:";) list.insert(word);
    EXPECT_EQ(list.contains(draft.refs[0]), true);
    EXPECT_GT(std::count_if(list.begin(), list.end(),
                            [](const std::string& word) { return word.find('-') < word.size(); }),
              50);
    for (const std::string& word : list) {
      const auto is_in = [&word](const std::string& ref) {
        return word != ref && word.find(ref) != std::string::npos;
      };
      EXPECT_TRUE(std::none_of(draft.refs.begin(), draft.refs.end(), is_in)) << word;
    }
  }
}

TEST(FrequentWordsTest, TheThreeAreTheMostFrequentButTheDots) {
  for (const int64_t units : {0, 30, 300}) {
    const Draft draft = FrequentWords(MakeBrief("x", units));
    std::map<std::string, int> counts;
    const size_t begin = draft.prompt.find("coded words. ") + 13;
    std::istringstream words(draft.prompt.substr(begin, draft.prompt.find("\nQuestion") - begin));
    for (std::string word; words >> word;) ++counts[word];
    std::vector<std::pair<int, std::string>> ranked;
    for (const auto& [word, count] : counts) ranked.emplace_back(count, word);
    std::sort(ranked.rbegin(), ranked.rend());
    EXPECT_EQ(ranked[0].second, "....");
    EXPECT_THAT(draft.refs, ElementsAre(ranked[1].second, ranked[2].second, ranked[3].second));
    EXPECT_GT(ranked[3].first, ranked[4].first) << "no tie at the end, " << units;
  }
}

TEST(QuestionAnsweringTest, TheSecondDocumentIsReachedThroughTheFirst) {
  const Draft draft = TwoHopQuestion(MakeBrief("x", 30));
  const size_t seat = draft.prompt.find("has its seat in the town of " + draft.refs[0] + ".");
  ASSERT_NE(seat, std::string::npos);
  const size_t begin = draft.prompt.rfind("The company ", seat) + 12;
  const std::string company = draft.prompt.substr(begin, draft.prompt.find(' ', begin) - begin);
  EXPECT_THAT(draft.prompt, HasSubstr("works for the company " + company + "."));
  EXPECT_EQ(draft.cue.find(company), std::string::npos);
}

TEST(PasskeyTest, StandsTwiceAtTheDepthThatIsAsked) {
  for (const double depth : {0.0, 0.25, 1.0}) {
    const Draft draft = Passkey({7, "x", 1024, 200, depth});
    EXPECT_EQ(draft.refs[0].size(), 64u);
    EXPECT_EQ(Count(draft.prompt, draft.refs[0]), 2u);
    EXPECT_EQ(draft.depth, depth);
    const double found = static_cast<double>(draft.prompt.find("The pass key is ")) /
                         static_cast<double>(draft.prompt.size());
    EXPECT_NEAR(found, depth, 0.05);
  }
}

TEST(HaystackTest, ALongerOneBeginsWithTheShorter) {
  const std::vector<std::string> small = ProseSentences(50, Random(1, "x"));
  std::vector<std::string> large = ProseSentences(80, Random(1, "x"));
  large.resize(50);
  EXPECT_EQ(small, large);
  EXPECT_GT(std::set<std::string>(small.begin(), small.end()).size(), 48u);
}

TEST(HaystackTest, HidesBeforeTheSentence) {
  EXPECT_EQ(Hide({"a.", "b.", "c."}, {"X.", "Y.", "Z."}, {0, 2, 3}, 2), "X. a. b.\nY. c. Z.");
  EXPECT_EQ(Hide({}, {"X."}, {0}, 2), "X.");
}

TEST(HaystackTest, NewOnesAreFoundWhereFewAreLeft) {
  std::set<std::string> used;
  Random random(1);
  for (int i = 0; i < 6; ++i) {
    DrawNew(used, [&random] { return std::string(1, static_cast<char>('a' + random.Below(2))); });
  }
  EXPECT_THAT(used, SizeIs(6));
}

}  // namespace
}  // namespace anchorage::eval::ruler
