#include "eval/ruler/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "eval/ruler/score.h"
#include "eval/ruler/task.h"

namespace anchorage::eval::ruler {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kNeedleBins = 10;

using Group = std::vector<const Result*>;

bool FullyRight(const Result& result) { return result.score >= 1; }

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? kNan : sum / static_cast<double>(values.size());
}

template <typename Value>
double MeanOf(const Group& group, Value value) {
  std::vector<double> values;
  for (const Result* result : group) values.push_back(static_cast<double>(value(*result)));
  return Mean(values);
}

// Answers of the yardstick by sample.
class Yardstick {
 public:
  Yardstick(std::span<const Result> results, const std::string& name) {
    for (const Result& result : results) {
      if (result.setting == name) by_id_[result.id] = &result;
    }
  }

  const Result* Find(const std::string& id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }
  bool empty() const { return by_id_.empty(); }

 private:
  std::map<std::string, const Result*> by_id_;
};

Metric MetricOf(const std::string& task) {
  const auto found = std::find_if(AllTasks().begin(), AllTasks().end(),
                                  [&task](const Task& each) { return each.name == task; });
  return found == AllTasks().end() ? Metric::kAllRefs : found->metric;
}

// Each answer against the references of the next sample of the same task.
double ShuffledScore(const Group& group) {
  if (group.size() < 2) return kNan;
  std::vector<double> scores;
  for (size_t i = 0; i < group.size(); ++i) {
    const Result& other = *group[(i + 1) % group.size()];
    scores.push_back(Score(MetricOf(other.task), group[i]->answer, other.refs));
  }
  return Mean(scores);
}

TaskScore ScoreTask(const std::string& task, const Group& group, const Yardstick& yardstick) {
  TaskScore score;
  score.task = task;
  std::vector<double> scores;
  std::vector<double> on_solved;
  for (const Result* result : group) {
    scores.push_back(result->score);
    const Result* const full = yardstick.Find(result->id);
    if (full != nullptr && FullyRight(*full)) on_solved.push_back(result->score);
  }
  score.score = BootstrapMean(scores);
  score.samples = static_cast<int64_t>(group.size());
  score.solved = static_cast<int64_t>(on_solved.size());
  score.on_solved = Mean(on_solved);
  score.shuffled = ShuffledScore(group);
  score.digit_prefix = MeanOf(group, [](const Result& result) { return result.digit_prefix; });
  return score;
}

void CompareWithYardstick(const Group& group, const Yardstick& yardstick, SettingScore& score) {
  std::vector<double> own;
  std::vector<double> full;
  int64_t only_own = 0;
  int64_t only_full = 0;
  for (const Result* result : group) {
    const Result* const other = yardstick.Find(result->id);
    if (other == nullptr) continue;
    own.push_back(result->score);
    full.push_back(other->score);
    only_own += FullyRight(*result) && !FullyRight(*other) ? 1 : 0;
    only_full += !FullyRight(*result) && FullyRight(*other) ? 1 : 0;
  }
  score.difference = BootstrapMeanDifference(own, full);
  score.retained = BootstrapRatio(own, full);
  score.mcnemar = McNemarExact(only_own, only_full);
}

// Whether scores over several tasks count this one.
bool Counts(const std::string& task, bool passkeys_only) {
  return passkeys_only || task != kPasskeyTask;
}

void AverageTasks(SettingScore& score, bool passkeys_only) {
  std::vector<double> scores;
  std::vector<double> on_solved;
  std::vector<double> shuffled;
  for (const TaskScore& task : score.tasks) {
    if (!Counts(task.task, passkeys_only)) continue;
    scores.push_back(task.score.estimate);
    if (task.solved > 0) on_solved.push_back(task.on_solved);
    if (!std::isnan(task.shuffled)) shuffled.push_back(task.shuffled);
  }
  score.score = Mean(scores);
  score.on_solved = Mean(on_solved);
  score.shuffled = Mean(shuffled);
}

SettingScore ScoreSetting(const std::string& setting, const std::map<std::string, Group>& by_task,
                          const std::vector<std::string>& tasks, const Yardstick& yardstick) {
  const bool passkeys_only = by_task.size() == 1 && by_task.contains(std::string(kPasskeyTask));
  SettingScore score;
  score.setting = setting;
  Group all;
  Group compared;
  for (const std::string& task : tasks) {
    const auto group = by_task.find(task);
    if (group == by_task.end()) continue;
    score.tasks.push_back(ScoreTask(task, group->second, yardstick));
    all.insert(all.end(), group->second.begin(), group->second.end());
    if (!Counts(task, passkeys_only)) continue;
    compared.insert(compared.end(), group->second.begin(), group->second.end());
  }
  score.samples = static_cast<int64_t>(all.size());
  score.ratio = MeanOf(all, [](const Result& result) { return result.ratio; });
  score.kv_bytes = MeanOf(all, [](const Result& result) { return result.kv_bytes; });
  CompareWithYardstick(compared, yardstick, score);
  AverageTasks(score, passkeys_only);
  return score;
}

std::vector<std::string> SettingsOf(std::span<const Result> results, const std::string& first) {
  std::vector<std::string> settings;
  for (const Result& result : results) {
    if (std::find(settings.begin(), settings.end(), result.setting) == settings.end()) {
      settings.push_back(result.setting);
    }
  }
  std::stable_partition(settings.begin(), settings.end(),
                        [&first](const std::string& setting) { return setting == first; });
  return settings;
}

std::vector<std::string> TasksOf(std::span<const Result> results) {
  std::set<std::string> seen;
  for (const Result& result : results) seen.insert(result.task);
  std::vector<std::string> tasks;
  for (const Task& task : AllTasks()) {
    if (seen.erase(std::string(task.name)) > 0) tasks.emplace_back(task.name);
  }
  tasks.insert(tasks.end(), seen.begin(), seen.end());
  return tasks;
}

double Bin(double depth) {
  const int bin = std::clamp(static_cast<int>(depth * kNeedleBins), 0, kNeedleBins - 1);
  return (bin + 0.5) / kNeedleBins;
}

// Means by (setting, length, depth), of the results for which `depth_of` tells one.
template <typename DepthOf>
std::vector<NeedleCell> CellsOf(std::span<const Result> results, DepthOf depth_of) {
  std::map<std::tuple<std::string, int64_t, double>, std::vector<double>> scores;
  for (const Result& result : results) {
    const double depth = depth_of(result);
    if (depth >= 0) scores[{result.setting, result.target_len, depth}].push_back(result.score);
  }
  std::vector<NeedleCell> cells;
  for (const auto& [key, values] : scores) {
    const auto& [setting, target_len, depth] = key;
    cells.push_back(
        {setting, target_len, depth, Mean(values), static_cast<int64_t>(values.size())});
  }
  return cells;
}

}  // namespace

Summary Summarise(std::span<const Result> results, const std::string& yardstick_name) {
  const Yardstick yardstick(results, yardstick_name);
  Summary summary;
  summary.yardstick = yardstick_name;
  summary.has_yardstick = !yardstick.empty();
  summary.settings = SettingsOf(results, yardstick_name);
  summary.tasks = TasksOf(results);
  std::map<int64_t, std::map<std::string, std::map<std::string, Group>>> groups;
  for (const Result& result : results) {
    groups[result.target_len][result.setting][result.task].push_back(&result);
  }
  for (const auto& [target_len, by_setting] : groups) {
    LengthScore length{target_len, {}};
    for (const std::string& setting : summary.settings) {
      const auto by_task = by_setting.find(setting);
      if (by_task == by_setting.end()) continue;
      length.settings.push_back(ScoreSetting(setting, by_task->second, summary.tasks, yardstick));
    }
    summary.lengths.push_back(std::move(length));
  }
  summary.passkeys = CellsOf(results, [](const Result& result) {
    return result.task == kPasskeyTask ? result.depth : kNoDepth;
  });
  summary.needles = CellsOf(results, [](const Result& result) {
    return result.task == kPasskeyTask || result.depth < 0 ? kNoDepth : Bin(result.depth);
  });
  return summary;
}

}  // namespace anchorage::eval::ruler
