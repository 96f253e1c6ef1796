#include "eval/ruler/run.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "eval/ruler/generate.h"
#include "eval/ruler/score.h"

namespace anchorage::eval::ruler {
namespace {

// Those of `settings` in which the sample is not answered yet.
std::vector<std::string> Missing(const SampleKey& key, const std::vector<std::string>& settings,
                                 const ResultStore& store) {
  std::vector<std::string> missing;
  for (const std::string& setting : settings) {
    if (store.Find(key.id, setting) == nullptr) missing.push_back(setting);
  }
  return missing;
}

absl::Status CheckSamePrompt(const Sample& sample, const std::vector<std::string>& settings,
                             const ResultStore& store) {
  for (const std::string& setting : settings) {
    const Result* const result = store.Find(sample.key.id, setting);
    if (result == nullptr || result->prompt_fingerprint == sample.Fingerprint()) continue;
    return FailedPrecondition(
        "the answers there are to other prompts (%s differs), such as those of another model or "
        "version; choose another folder",
        sample.key.id);
  }
  return absl::OkStatus();
}

absl::Status CheckSameSettings(const std::vector<std::string>& settings, const Answerer& answerer,
                               const ResultStore& store) {
  for (const Result& result : store.results()) {
    if (std::find(settings.begin(), settings.end(), result.setting) == settings.end()) continue;
    const uint64_t now = answerer.setting_fingerprint(result.setting);
    if (result.setting_fingerprint == now) continue;
    return FailedPrecondition(
        "the answers there in the setting '%s' are of another model or other options "
        "(%016x there, %016x now): name another --out, or tell them apart by --label",
        result.setting, result.setting_fingerprint, now);
  }
  return absl::OkStatus();
}

Result ResultOf(const Sample& sample, uint64_t setting_fingerprint, Answer answer) {
  const Task& task = sample.key.task;
  Result result;
  result.id = sample.key.id;
  result.setting = std::move(answer.setting);
  result.setting_fingerprint = setting_fingerprint;
  result.task = std::string(task.name);
  result.target_len = sample.key.target_len;
  result.depth = sample.depth;
  result.prompt_fingerprint = sample.Fingerprint();
  result.prompt_tokens = static_cast<int64_t>(sample.prompt.ids.size());
  result.answer_tokens = answer.answer_tokens;
  result.kv_bytes = answer.kv_bytes;
  result.ratio = answer.ratio;
  result.score = Score(task.metric, answer.text, sample.refs);
  if (task.metric == Metric::kPasskey) {
    result.digit_prefix = DigitPrefix(answer.text, sample.refs.front());
  }
  result.answer = std::move(answer.text);
  result.refs = sample.refs;
  return result;
}

}  // namespace

int64_t WorkOf(const std::vector<SampleKey>& keys) {
  int64_t tokens = 0;
  for (const SampleKey& key : keys) tokens += key.target_len;
  return tokens;
}

absl::Status AskAll(const std::vector<SampleKey>& keys, const PromptRenderer& renderer,
                    Answerer& answerer, ResultStore& store, Progress& progress) {
  const std::vector<std::string> settings = answerer.settings();
  RETURN_IF_ERROR(CheckSameSettings(settings, answerer, store));
  bool checked = false;  // that what is answered already was the same prompt
  for (const SampleKey& key : keys) {
    const std::vector<std::string> missing = Missing(key, settings, store);
    if (missing.empty() && checked) {
      progress.Skip(key.target_len);
      continue;
    }
    ASSIGN_OR_RETURN(const Sample sample, MakeSample(key, renderer));
    RETURN_IF_ERROR(CheckSamePrompt(sample, settings, store));
    checked = true;
    if (missing.empty()) {
      progress.Skip(key.target_len);
      continue;
    }
    progress.Advance(0, key.id);
    ASSIGN_OR_RETURN(std::vector<Answer> answers, answerer.Ask(sample, missing));
    for (Answer& answer : answers) {
      const uint64_t fingerprint = answerer.setting_fingerprint(answer.setting);
      RETURN_IF_ERROR(store.Append(ResultOf(sample, fingerprint, std::move(answer))));
    }
    progress.Advance(key.target_len, key.id);
  }
  return absl::OkStatus();
}

}  // namespace anchorage::eval::ruler
