#include "eval/ruler/report.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/bytes.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "eval/report/svg_plot.h"
#include "eval/ruler/task.h"

namespace anchorage::eval::ruler {
namespace {

using Json = nlohmann::ordered_json;

std::string Percent(double share) {
  return std::isfinite(share) ? absl::StrFormat("%.1f", 100 * share) : "–";
}

std::string Signed(const Interval& interval) {
  if (!std::isfinite(interval.estimate)) return "–";
  return absl::StrFormat("%+.1f [%+.1f, %+.1f]", 100 * interval.estimate, 100 * interval.low,
                         100 * interval.high);
}

std::string Unsigned(const Interval& interval) {
  if (!std::isfinite(interval.estimate)) return "–";
  return absl::StrFormat("%.1f [%.1f, %.1f]", 100 * interval.estimate, 100 * interval.low,
                         100 * interval.high);
}

const TaskScore* FindTask(const SettingScore& setting, const std::string& name) {
  const auto found = std::find_if(setting.tasks.begin(), setting.tasks.end(),
                                  [&name](const TaskScore& task) { return task.task == name; });
  return found == setting.tasks.end() ? nullptr : &*found;
}

// A table of one value for each task (row) and setting (column), with the mean over tasks below.
// `lead`: a column between the task's name and the values.
template <typename Lead, typename Value, typename MeanOf>
std::string TaskTable(const LengthScore& length, const std::vector<std::string>& tasks,
                      const char* lead_name, Lead lead, Value value, MeanOf mean) {
  std::string table = absl::StrFormat("| task | %s |", lead_name);
  std::string rule = "|---|---|";
  for (const SettingScore& setting : length.settings) {
    absl::StrAppendFormat(&table, " %s |", setting.setting);
    rule += "---|";
  }
  table += "\n" + rule + "\n";
  for (const std::string& task : tasks) {
    const TaskScore* const first = FindTask(length.settings.front(), task);
    absl::StrAppendFormat(&table, "| %s | %s |", task,
                          first == nullptr ? "–" : absl::StrFormat("%d", lead(*first)));
    for (const SettingScore& setting : length.settings) {
      const TaskScore* const score = FindTask(setting, task);
      absl::StrAppendFormat(&table, " %s |", score == nullptr ? "–" : Percent(value(*score)));
    }
    table += "\n";
  }
  table += "| **mean** | |";
  for (const SettingScore& setting : length.settings) {
    absl::StrAppendFormat(&table, " **%s** |", Percent(mean(setting)));
  }
  return table + "\n";
}

std::string SettingTable(const LengthScore& length, const std::string& yardstick) {
  std::string table = absl::StrFormat(
      "| setting | cache | smaller by | samples | score | − %s [95 %%] | retained, %% [95 %%] | "
      "McNemar p | shuffled |\n|---|---|---|---|---|---|---|---|---|\n",
      yardstick);
  for (const SettingScore& setting : length.settings) {
    const bool known = setting.ratio > 0;
    absl::StrAppendFormat(
        &table, "| %s | %s | %s | %d | %s | %s | %s | %s | %s |\n", setting.setting,
        known ? FormatBytes(std::llround(setting.kv_bytes)) : "–",
        known ? absl::StrFormat("%.2fx", setting.ratio) : "–", setting.samples,
        Percent(setting.score), Signed(setting.difference), Unsigned(setting.retained),
        std::isfinite(setting.difference.estimate) ? absl::StrFormat("%.3f", setting.mcnemar) : "–",
        Percent(setting.shuffled));
  }
  return table;
}

std::string PasskeyLine(const LengthScore& length) {
  std::string line;
  for (const SettingScore& setting : length.settings) {
    const TaskScore* const passkey = FindTask(setting, std::string(kPasskeyTask));
    if (passkey == nullptr) continue;
    absl::StrAppendFormat(&line, "%s%s %.1f", line.empty() ? "" : ", ", setting.setting,
                          passkey->digit_prefix);
  }
  return line.empty() ? "" : "Digits of the passkey that are right, of 64: " + line + ".\n\n";
}

// JSON has no NaN.
Json Known(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json IntervalJson(const Interval& interval) {
  return {{"estimate", Known(interval.estimate)},
          {"low", Known(interval.low)},
          {"high", Known(interval.high)}};
}

Json TaskJson(const TaskScore& task) {
  return {{"task", task.task},
          {"samples", task.samples},
          {"score", IntervalJson(task.score)},
          {"solved_by_yardstick", task.solved},
          {"score_on_solved", Known(task.on_solved)},
          {"shuffled", Known(task.shuffled)},
          {"digit_prefix", task.task == kPasskeyTask ? Known(task.digit_prefix) : Json(nullptr)}};
}

Json SettingJson(const SettingScore& setting) {
  Json tasks = Json::array();
  for (const TaskScore& task : setting.tasks) tasks.push_back(TaskJson(task));
  const bool known = setting.ratio > 0;
  return {{"setting", setting.setting},
          {"ratio", known ? Json(setting.ratio) : Json(nullptr)},
          {"kv_bytes", known ? Json(setting.kv_bytes) : Json(nullptr)},
          {"samples", setting.samples},
          {"score", Known(setting.score)},
          {"score_on_solved", Known(setting.on_solved)},
          {"difference", IntervalJson(setting.difference)},
          {"retained", IntervalJson(setting.retained)},
          {"mcnemar_p", setting.mcnemar},
          {"shuffled", Known(setting.shuffled)},
          {"tasks", std::move(tasks)}};
}

Json CellsJson(const std::vector<NeedleCell>& cells) {
  Json json = Json::array();
  for (const NeedleCell& cell : cells) {
    json.push_back({{"setting", cell.setting},
                    {"length", cell.target_len},
                    {"depth", cell.depth},
                    {"samples", cell.samples},
                    {"score", Known(cell.score)}});
  }
  return json;
}

std::string CompressionSvg(const Summary& summary) {
  LinePlot plot;
  plot.title = "Score against compression";
  plot.x_label = "times smaller (achieved)";
  plot.y_label = "mean score over tasks";
  plot.log_x = true;
  plot.y_min = 0;
  plot.y_max = 1;
  for (const LengthScore& length : summary.lengths) {
    std::vector<const SettingScore*> settings;
    for (const SettingScore& setting : length.settings) {
      if (setting.ratio > 0) settings.push_back(&setting);
    }
    std::sort(settings.begin(), settings.end(),
              [](const SettingScore* a, const SettingScore* b) { return a->ratio < b->ratio; });
    LineSeries series;
    series.name = absl::StrFormat("%d tokens", length.target_len);
    for (const SettingScore* setting : settings) {
      series.x.push_back(setting->ratio);
      series.y.push_back(setting->score);
    }
    plot.series.push_back(std::move(series));
  }
  return ToSvg(plot);
}

std::string TasksSvg(const LengthScore& length, const std::vector<std::string>& tasks) {
  BarPlot plot;
  plot.title = absl::StrFormat("Score by task, %d tokens", length.target_len);
  plot.y_label = "score";
  plot.y_max = 1;
  plot.groups = tasks;
  for (const SettingScore& setting : length.settings) {
    BarSeries series{setting.setting, {}, {}, {}};
    for (const std::string& task : tasks) {
      const TaskScore* const score = FindTask(setting, task);
      series.values.push_back(score == nullptr ? kNoValue : score->score.estimate);
      series.low.push_back(score == nullptr ? kNoValue : score->score.low);
      series.high.push_back(score == nullptr ? kNoValue : score->score.high);
    }
    plot.series.push_back(std::move(series));
  }
  return ToSvg(plot);
}

// Empty when the setting has no such cell.
std::string NeedleSvg(const std::vector<NeedleCell>& cells, const std::string& setting,
                      const std::string& what) {
  std::set<int64_t> lengths;
  std::set<double> depths;
  std::map<std::pair<int64_t, double>, double> scores;
  for (const NeedleCell& cell : cells) {
    if (cell.setting != setting) continue;
    lengths.insert(cell.target_len);
    depths.insert(cell.depth);
    scores[{cell.target_len, cell.depth}] = cell.score;
  }
  if (scores.empty()) return "";
  HeatMap map;
  map.title = what + ", " + setting;
  map.x_label = "depth of the needle, % of the haystack";
  map.y_label = "length, tokens";
  for (const double depth : depths) map.columns.push_back(absl::StrFormat("%.0f", 100 * depth));
  for (const int64_t length : lengths) {
    map.rows.push_back(absl::StrFormat("%d", length));
    for (const double depth : depths) {
      const auto score = scores.find({length, depth});
      map.values.push_back(score == scores.end() ? kNoValue : score->second);
    }
  }
  return ToSvg(map);
}

// "compact 20x" as part of a file's name.
std::string FileName(const std::string& setting) {
  std::string name = setting;
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; }, '_');
  return name;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) return Unavailable("%s: cannot be written", path);
  return absl::OkStatus();
}

}  // namespace

std::string ToMarkdown(const Summary& summary) {
  std::string text = absl::StrFormat(
      "# ruler-lite\n\nMade-up prompts with the structure of RULER's tasks; the numbers are not "
      "comparable with published ones.\nScores in %%. The mean leaves passkeys out unless nothing "
      "else was asked. *Shuffled*: each answer against the\nnext sample's references, which should "
      "be near 0.\n");
  if (!summary.has_yardstick) {
    absl::StrAppendFormat(&text, "\nThere are no answers of '%s' to compare with.\n",
                          summary.yardstick);
  }
  for (const LengthScore& length : summary.lengths) {
    absl::StrAppendFormat(&text, "\n## %d tokens\n\n", length.target_len);
    text += SettingTable(length, summary.yardstick) + "\n";
    text += TaskTable(
        length, summary.tasks, "samples", [](const TaskScore& task) { return task.samples; },
        [](const TaskScore& task) { return task.score.estimate; },
        [](const SettingScore& setting) { return setting.score; });
    text += "\n" + PasskeyLine(length);
    if (!summary.has_yardstick) continue;
    absl::StrAppendFormat(&text, "Of those that '%s' solves:\n\n", summary.yardstick);
    text += TaskTable(
        length, summary.tasks, "solved", [](const TaskScore& task) { return task.solved; },
        [](const TaskScore& task) { return task.on_solved; },
        [](const SettingScore& setting) { return setting.on_solved; });
  }
  return text;
}

std::string ToJson(const Summary& summary) {
  Json lengths = Json::array();
  for (const LengthScore& length : summary.lengths) {
    Json settings = Json::array();
    for (const SettingScore& setting : length.settings) settings.push_back(SettingJson(setting));
    lengths.push_back({{"length", length.target_len}, {"settings", std::move(settings)}});
  }
  const Json json = {{"yardstick", summary.yardstick},
                     {"lengths", std::move(lengths)},
                     {"passkeys", CellsJson(summary.passkeys)},
                     {"needles", CellsJson(summary.needles)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::Status WriteReport(const Summary& summary, const std::string& folder) {
  RETURN_IF_ERROR(WriteFile(folder + "/report.md", ToMarkdown(summary)));
  RETURN_IF_ERROR(WriteFile(folder + "/report.json", ToJson(summary)));
  RETURN_IF_ERROR(WriteFile(folder + "/compression.svg", CompressionSvg(summary)));
  for (const LengthScore& length : summary.lengths) {
    RETURN_IF_ERROR(WriteFile(absl::StrFormat("%s/tasks_%d.svg", folder, length.target_len),
                              TasksSvg(length, summary.tasks)));
  }
  for (const std::string& setting : summary.settings) {
    const std::string passkeys = NeedleSvg(summary.passkeys, setting, "Passkey");
    const std::string needles = NeedleSvg(summary.needles, setting, "One needle");
    const std::string name = FileName(setting) + ".svg";
    if (!passkeys.empty()) RETURN_IF_ERROR(WriteFile(folder + "/passkey_" + name, passkeys));
    if (!needles.empty()) RETURN_IF_ERROR(WriteFile(folder + "/needles_" + name, needles));
  }
  return absl::OkStatus();
}

}  // namespace anchorage::eval::ruler
