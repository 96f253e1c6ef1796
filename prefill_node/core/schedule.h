// In which order layers and chunks of a prompt run. The result is the same bits; what differs is
// how much uncompressed K and V is resident at once.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace anchorage::prefill {

enum class Schedule : uint8_t {
  kLayerMajor,  // all chunks of a layer, compress it, next layer (TideKV, arXiv 2610.24499, alg. 1)
  kChunkMajor,  // all layers of a chunk, next chunk; every layer is compressed at the end
  kOneShot,     // the whole prompt as one chunk; every layer is compressed at the end
};

// "layer-major", "chunk-major", "one-shot". InvalidArgument: anything else.
absl::StatusOr<Schedule> ParseSchedule(std::string_view name);
const char* ScheduleName(Schedule schedule);

// Where a schedule is, for those who watch it.
struct ScheduleEvent {
  enum class Kind : uint8_t {
    kChunkDone,   // a chunk has passed a layer; its K and V are in the active layer
    kLayerDone,   // a layer has been compressed and handed over, or is held for the end
    kPromptDone,  // the first token is known; nothing of this prompt is left but its result
  };
  Kind kind;
  int64_t prompt;  // index in the batch
  int64_t layer;
  int64_t tokens;  // of the prompt that have passed this layer
};

}  // namespace anchorage::prefill
