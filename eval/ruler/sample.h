// One question, ready to be asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/ruler/prompt_renderer.h"
#include "eval/ruler/task.h"

namespace anchorage::eval::ruler {

// What makes a sample, before its text is written.
struct SampleKey {
  Task task;
  int64_t target_len = 0;   // most tokens of prompt and answer
  double depth = kNoDepth;  // where its needle is wanted; kNoDepth: the task decides
  uint64_t seed = 0;
  std::string id;  // unique in a run and the same in the next: "vt/4096/3/seed0"
};

struct Sample {
  SampleKey key;
  RenderedPrompt prompt;
  std::vector<std::string> refs;
  double depth = kNoDepth;  // where the needle asked for is, a share of the haystack

  // A number that other prompts are very unlikely to share: FNV-1a of the ids.
  uint64_t Fingerprint() const {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (const int32_t id : prompt.ids) {
      for (int shift = 0; shift < 32; shift += 8) {
        hash = (hash ^ ((static_cast<uint32_t>(id) >> shift) & 0xff)) * 0x100000001b3ull;
      }
    }
    return hash;
  }
};

}  // namespace anchorage::eval::ruler
