// Results put together: by length, setting and task, raw and on what the yardstick solves.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "eval/report/bootstrap.h"
#include "eval/ruler/result_store.h"

namespace anchorage::eval::ruler {

// One task in one setting at one length.
struct TaskScore {
  std::string task;
  Interval score;  // raw, of all samples
  int64_t samples = 0;
  int64_t solved = 0;       // by the yardstick, fully, among these samples
  double on_solved = 0;     // mean score of those; NaN when there are none
  double shuffled = 0;      // mean score against the next sample's references: a negative control
  double digit_prefix = 0;  // mean, of passkeys
};

// All tasks in one setting at one length. A mean over tasks weighs each task alike. Passkeys are
// left out of the means and of what is compared with the yardstick unless nothing else was asked.
struct SettingScore {
  std::string setting;
  double ratio = 0;     // mean over the samples, as achieved; 0: not known
  double kv_bytes = 0;  // mean
  int64_t samples = 0;
  double score = 0;      // mean over tasks
  double on_solved = 0;  // mean over the tasks of which the yardstick solves something
  Interval difference;   // of the samples' scores from the yardstick's, paired; NaN without it
  Interval retained;     // sum of scores over the yardstick's, paired
  double mcnemar = 1;    // of fully right against not, exact, two-sided
  double shuffled = 0;
  std::vector<TaskScore> tasks;
};

struct LengthScore {
  int64_t target_len = 0;
  std::vector<SettingScore> settings;  // the yardstick first
};

// Score by where the needle was.
struct NeedleCell {
  std::string setting;
  int64_t target_len = 0;
  double depth = 0;  // passkeys: as asked for; other tasks: middle of a tenth of the haystack
  double score = 0;
  int64_t samples = 0;
};

struct Summary {
  std::string yardstick;              // setting that others are compared with
  bool has_yardstick = false;         // whether there are results of it
  std::vector<std::string> settings;  // the yardstick first
  std::vector<std::string> tasks;     // in the order of AllTasks()
  std::vector<LengthScore> lengths;   // ascending
  std::vector<NeedleCell> passkeys;
  std::vector<NeedleCell> needles;  // of the other tasks that ask for one needle
};

// Pure. Settings are compared on the samples that both have answered.
Summary Summarise(std::span<const Result> results, const std::string& yardstick);

}  // namespace anchorage::eval::ruler
