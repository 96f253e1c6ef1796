// Which waiting prompts pass through the unpacked layers together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace anchorage::prefill {

struct BatchLimits {
  int64_t short_tokens = 512;  // only prompts up to that long share a batch
  int64_t max_tokens = 2048;   // of all of them together
  int64_t max_prompts = 32;
};

// Indices into `lengths` (tokens of the waiting prompts, oldest first), ascending. The oldest
// always goes, so nobody waits for ever; if it is short, younger short prompts ride along as far as
// the limits allow. Empty when nothing waits. A pure function.
std::vector<size_t> ChooseBatch(std::span<const int64_t> lengths, const BatchLimits& limits);

}  // namespace anchorage::prefill
