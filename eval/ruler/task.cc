#include "eval/ruler/task.h"

#include <algorithm>

#include "common/status.h"
#include "eval/ruler/families.h"

namespace anchorage::eval::ruler {

const std::vector<Task>& AllTasks() {
  static const std::vector<Task> tasks = {
      {"niah_single_1", Metric::kAllRefs, 128, &NiahSingle1},
      {"niah_single_2", Metric::kAllRefs, 128, &NiahSingle2},
      {"niah_single_3", Metric::kAllRefs, 128, &NiahSingle3},
      {"niah_multikey_1", Metric::kAllRefs, 128, &NiahMultikey1},
      {"niah_multikey_2", Metric::kAllRefs, 128, &NiahMultikey2},
      {"niah_multikey_3", Metric::kAllRefs, 128, &NiahMultikey3},
      {"niah_multivalue", Metric::kAllRefs, 128, &NiahMultivalue},
      {"niah_multiquery", Metric::kAllRefs, 128, &NiahMultiquery},
      {"vt", Metric::kAllRefs, 30, &VariableTracking},
      {"cwe", Metric::kAllRefs, 120, &CommonWords},
      {"fwe", Metric::kAllRefs, 50, &FrequentWords},
      {"qa_1", Metric::kAnyRef, 32, &OneHopQuestion},
      {"qa_2", Metric::kAnyRef, 32, &TwoHopQuestion},
      {kPasskeyTask, Metric::kPasskey, 80, &Passkey}};
  return tasks;
}

absl::StatusOr<std::vector<Task>> TasksByName(const std::vector<std::string>& names) {
  if (names.size() == 1 && names.front() == "all") return AllTasks();
  std::vector<Task> tasks;
  for (const std::string& name : names) {
    const auto found = std::find_if(AllTasks().begin(), AllTasks().end(),
                                    [&name](const Task& task) { return task.name == name; });
    if (found == AllTasks().end()) {
      std::string known = "all";
      for (const Task& task : AllTasks()) known += ", " + std::string(task.name);
      return Invalid("'%s' is no task; there are: %s", name, known);
    }
    const bool is_there = std::any_of(tasks.begin(), tasks.end(),
                                      [&name](const Task& task) { return task.name == name; });
    if (!is_there) tasks.push_back(*found);
  }
  if (tasks.empty()) return Invalid("no task is named");
  return tasks;
}

}  // namespace anchorage::eval::ruler
