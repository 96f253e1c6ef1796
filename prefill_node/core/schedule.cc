#include "prefill_node/core/schedule.h"

#include "common/status.h"

namespace anchorage::prefill {

const char* ScheduleName(Schedule schedule) {
  switch (schedule) {
    case Schedule::kLayerMajor:
      return "layer-major";
    case Schedule::kChunkMajor:
      return "chunk-major";
    case Schedule::kOneShot:
      break;
  }
  return "one-shot";
}

absl::StatusOr<Schedule> ParseSchedule(std::string_view name) {
  for (const Schedule schedule :
       {Schedule::kLayerMajor, Schedule::kChunkMajor, Schedule::kOneShot}) {
    if (name == ScheduleName(schedule)) return schedule;
  }
  return Invalid("'%s' is no schedule: layer-major, chunk-major or one-shot", name);
}

}  // namespace anchorage::prefill
