// From a plan to answers: lengths that fit, runs that go on where they stopped, and this process's
// own answers with a tiny model.

#include "eval/ruler/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "eval/candidate.h"
#include "eval/ruler/generate.h"
#include "eval/ruler/http_answerer.h"
#include "eval/ruler/local_answerer.h"
#include "files/gguf.h"
#include "model/model.h"
#include "tests/support/tiny_model.h"

namespace anchorage::eval::ruler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// The tiny model's tokenizer makes a token of each byte.
constexpr int64_t kLength = 2400;

const PromptRenderer& Renderer() {
  static const PromptRenderer renderer = [] {
    const auto file = files::GgufFile::Open(testing::TinyModelPath());
    return *PromptRenderer::FromGguf(*file);
  }();
  return renderer;
}

RunPlan MakePlan(const std::vector<std::string>& tasks) {
  return {*TasksByName(tasks), {kLength}, 2, 3, 5};
}

// Answers with the references; notes what it was asked.
class FakeAnswerer : public Answerer {
 public:
  explicit FakeAnswerer(std::vector<std::string> settings) : settings_(std::move(settings)) {}

  std::vector<std::string> settings() const override { return settings_; }
  uint64_t setting_fingerprint(const std::string& setting) const override {
    return fingerprint + setting.size();
  }

  absl::StatusOr<std::vector<Answer>> Ask(const Sample& sample,
                                          const std::vector<std::string>& settings) override {
    if (static_cast<int>(asked.size()) == fails_at) return Unavailable("the line is dead");
    std::vector<Answer> answers;
    std::string refs;
    for (const std::string& ref : sample.refs) refs += ref + " ";
    for (const std::string& setting : settings) {
      asked.push_back(sample.key.id + "@" + setting);
      answers.push_back({setting, refs});
    }
    return answers;
  }

  std::vector<std::string> asked;
  int fails_at = -1;
  uint64_t fingerprint = 0xfedcba9876543210ull;

 private:
  std::vector<std::string> settings_;
};

class RunTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  absl::Status Run(const RunPlan& plan, Answerer& answerer) {
    auto store = ResultStore::Open(path_);
    if (!store.ok()) return store.status();
    std::FILE* const quiet = std::fopen("/dev/null", "w");
    absl::Status status;
    {
      Progress progress("test", 1, Clock::Real(), quiet);
      status = AskAll(KeysOf(plan), Renderer(), answerer, *store, progress);
    }
    std::fclose(quiet);
    return status;
  }

  const std::string path_ = ::testing::TempDir() + "/run_test.jsonl";
};

TEST(GenerateTest, LengthsAreMetFromBelowByLessThanAUnit) {
  for (const SampleKey& key : KeysOf({AllTasks(), {kLength, 5000}, 1, 1, 5})) {
    const absl::StatusOr<Sample> sample = MakeSample(key, Renderer());
    ASSERT_TRUE(sample.ok()) << sample.status();
    const auto tokens = static_cast<int64_t>(sample->prompt.ids.size()) + key.task.max_tokens;
    EXPECT_LE(tokens, key.target_len) << key.id;
    EXPECT_GT(tokens, key.target_len - 300) << key.id;  // the largest unit: two documents
    EXPECT_EQ(sample->prompt.ids, Renderer().tokenizer().EncodeWithSpecials(sample->prompt.text))
        << "the text is the ids in words";
  }
}

TEST(GenerateTest, ThePromptIsAChatThatEndsInTheCue) {
  const SampleKey key = KeysOf(MakePlan({"niah_single_1"}))[0];
  const Sample sample = *MakeSample(key, Renderer());
  EXPECT_THAT(sample.prompt.text, HasSubstr("<|im_start|>user\nA special magic number is hidden"));
  EXPECT_TRUE(sample.prompt.text.ends_with("mentioned in the provided text is"));
  EXPECT_THAT(sample.prompt.text, HasSubstr("<|im_start|>assistant\nThe special magic number for"));
  EXPECT_EQ(sample.Fingerprint(), MakeSample(key, Renderer())->Fingerprint());
}

TEST(GenerateTest, KeysAreUniqueAndCoverTheGrid) {
  const std::vector<SampleKey> keys = KeysOf(MakePlan({"vt", "passkey"}));
  EXPECT_THAT(keys, SizeIs(2 * (1 + 3)));
  EXPECT_EQ(keys[0].id, "vt/2400/0/seed5");
  EXPECT_EQ(keys[1].id, "passkey/2400/depth0.0000/0/seed5");
  EXPECT_EQ(keys[2].depth, 0.5);
  EXPECT_EQ(keys[7].id, "passkey/2400/depth1.0000/1/seed5");
}

TEST(GenerateTest, ImpossibleLengthsAreRefusedWithTheNumbers) {
  const auto refused = [](int64_t length, int64_t context) {
    RunPlan plan = MakePlan({"vt", "cwe"});
    plan.lengths = {length};
    const absl::Status status = CheckLengths(plan, Renderer(), context);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused(300, 8192), HasSubstr("vt needs a length of at least "));
  EXPECT_THAT(refused(9000, 8192), HasSubstr("9000 tokens is beyond the model's context of 8192"));
  EXPECT_TRUE(CheckLengths(MakePlan({"vt", "cwe"}), Renderer(), 8192).ok());
}

TEST_F(RunTest, AsksOnlyWhatIsNotAnswered) {
  FakeAnswerer one({"full"});
  ASSERT_TRUE(Run(MakePlan({"vt"}), one).ok());
  EXPECT_THAT(one.asked, ElementsAre("vt/2400/0/seed5@full", "vt/2400/1/seed5@full"));
  FakeAnswerer again({"full"});
  ASSERT_TRUE(Run(MakePlan({"vt"}), again).ok());
  EXPECT_THAT(again.asked, SizeIs(0));
  FakeAnswerer more({"full", "small"});
  RunPlan plan = MakePlan({"vt"});
  plan.samples = 3;
  ASSERT_TRUE(Run(plan, more).ok());
  EXPECT_THAT(more.asked, ElementsAre("vt/2400/0/seed5@small", "vt/2400/1/seed5@small",
                                      "vt/2400/2/seed5@full", "vt/2400/2/seed5@small"));
}

TEST_F(RunTest, GoesOnWhereItStopped) {
  FakeAnswerer failing({"full"});
  failing.fails_at = 1;
  EXPECT_EQ(Run(MakePlan({"vt"}), failing).message(), "the line is dead");
  FakeAnswerer next({"full"});
  ASSERT_TRUE(Run(MakePlan({"vt"}), next).ok());
  EXPECT_THAT(next.asked, ElementsAre("vt/2400/1/seed5@full"));
}

TEST_F(RunTest, TheRightAnswerScoresOneAndCarriesItsSample) {
  FakeAnswerer answerer({"full"});
  ASSERT_TRUE(Run(MakePlan({"all"}), answerer).ok());
  const auto store = ResultStore::Open(path_);
  ASSERT_THAT(store->results(), SizeIs(2 * (13 + 3)));
  for (const Result& result : store->results()) {
    EXPECT_EQ(result.score, 1) << result.id;
    EXPECT_EQ(result.target_len, kLength);
    EXPECT_GT(result.prompt_tokens, 1500);
    EXPECT_EQ(result.digit_prefix, result.task == kPasskeyTask ? 64 : 0);
  }
}

TEST_F(RunTest, AnswersToOtherPromptsAreNotMixedIn) {
  FakeAnswerer answerer({"full"});
  ASSERT_TRUE(Run(MakePlan({"vt"}), answerer).ok());
  {
    auto store = ResultStore::Open(path_);
    Result result = store->results()[0];
    std::filesystem::remove(path_);
    result.prompt_fingerprint += 1;
    ASSERT_TRUE(ResultStore::Open(path_)->Append(result).ok());
  }
  const absl::Status status = Run(MakePlan({"vt"}), answerer);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("choose another folder"));
}

TEST_F(RunTest, AnswersOfOtherOptionsUnderTheSameNameAreNotMixedIn) {
  FakeAnswerer answerer({"full", "small"});
  ASSERT_TRUE(Run(MakePlan({"vt"}), answerer).ok());
  FakeAnswerer other({"small"});
  other.fingerprint += 1;
  const absl::Status status = Run(MakePlan({"cwe"}), other);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'small'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("name another --out"));
  EXPECT_THAT(other.asked, SizeIs(0));
  FakeAnswerer renamed({"tiny"});
  renamed.fingerprint += 1;
  EXPECT_TRUE(Run(MakePlan({"vt"}), renamed).ok());
  EXPECT_THAT(renamed.asked, SizeIs(2));
}

TEST(HttpAnswererTest, ItsFingerprintTellsModelsAndFormsApart) {
  HttpAnswererOptions options{{"host", "80", "/v1"}, "a", "same"};
  std::set<uint64_t> seen = {HttpAnswerer(options).setting_fingerprint("same")};
  options.form = PromptForm::kText;
  seen.insert(HttpAnswerer(options).setting_fingerprint("same"));
  options.model_name = "b";
  seen.insert(HttpAnswerer(options).setting_fingerprint("same"));
  options.endpoint.port = "81";
  seen.insert(HttpAnswerer(options).setting_fingerprint("same"));
  EXPECT_THAT(seen, SizeIs(4));
}

// The full cache, then each method at each ratio.
std::vector<KvSetting> Settings(const std::vector<std::string>& methods,
                                const std::vector<double>& ratios,
                                const kv::PlanOptions& options = {}) {
  std::vector<KvSetting> settings;
  const auto candidates = MakeCandidates(methods, ratios, options);
  for (const Candidate& candidate : candidates.value()) {
    settings.push_back({candidate.name(), candidate});
  }
  return settings;
}

// The tiny model's answers mean nothing, but they depend on all of its cache.
TEST(LocalAnswererTest, OnePrefillAnswersInEverySetting) {
  const auto model = model::Model::Load(testing::TinyModelPath());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto answerer =
      LocalAnswerer::Create(**model, Settings({"compact", "no-residuals", "snapkv"}, {1, 20}), 2);
  ASSERT_TRUE(answerer.ok()) << answerer.status();
  const std::vector<std::string> names = (*answerer)->settings();
  EXPECT_THAT(names, ElementsAre("full", "compact 1x", "compact 20x", "no-residuals 1x",
                                 "no-residuals 20x", "snapkv 1x", "snapkv 20x"));
  const Sample sample = *MakeSample(KeysOf(MakePlan({"niah_single_2"}))[0], Renderer());

  const auto together = (*answerer)->Ask(sample, names);
  ASSERT_TRUE(together.ok()) << together.status();
  ASSERT_THAT(*together, SizeIs(7));
  EXPECT_EQ((*together)[0].ratio, 1);
  EXPECT_GT((*together)[2].ratio, 5);
  EXPECT_EQ((*together)[0].answer_tokens, 128);
  EXPECT_NE((*together)[0].text, (*together)[2].text) << "20x is not lossless";

  std::set<std::string> texts;
  for (const size_t i : {2, 4, 6}) {
    const auto alone = (*answerer)->Ask(sample, {names[i]});
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ((*alone)[0].text, (*together)[i].text) << names[i];
    texts.insert((*alone)[0].text);
  }
  EXPECT_THAT(texts, SizeIs(3)) << "each method loses something else";
}

TEST(LocalAnswererTest, ItsFingerprintTellsPlansAndMethodsApart) {
  const auto model = model::Model::Load(testing::TinyModelPath());
  ASSERT_TRUE(model.ok()) << model.status();
  std::set<uint64_t> seen;
  const auto see = [&](const std::string& method, const kv::PlanOptions& options) {
    auto settings = Settings({method}, {5}, options);
    const std::string name = settings[1].name;
    seen.insert((*LocalAnswerer::Create(**model, settings, 1))->setting_fingerprint(name));
  };
  kv::PlanOptions options;
  see("compact", options);
  see("rank-random", options);
  see("snapkv", options);
  options.floor_tokens += 1;
  see("compact", options);
  options.num_pins += 1;
  see("compact", options);
  EXPECT_THAT(seen, SizeIs(5));
}

TEST(LocalAnswererTest, TooManyOrDoubleSettingsAreRefused) {
  const auto model = model::Model::Load(testing::TinyModelPath());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto refused = [&](const std::vector<KvSetting>& settings) {
    const absl::Status status = LocalAnswerer::Create(**model, settings, 1).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  std::vector<double> ratios(64);
  std::iota(ratios.begin(), ratios.end(), 1);
  std::vector<KvSetting> many = Settings({"compact"}, ratios);
  EXPECT_THAT(refused(many), HasSubstr("65 caches at once: at most 64"));
  EXPECT_THAT(refused(many), HasSubstr("fewer --methods or --ratios"));
  many.pop_back();
  EXPECT_TRUE(LocalAnswerer::Create(**model, many, 1).ok());
  many[2].name = many[1].name;
  EXPECT_THAT(refused(many), HasSubstr("two settings 'compact 1x'"));
}

}  // namespace
}  // namespace anchorage::eval::ruler
