#include "prefill_node/core/batching.h"

namespace anchorage::prefill {

std::vector<size_t> ChooseBatch(std::span<const int64_t> lengths, const BatchLimits& limits) {
  if (lengths.empty()) return {};
  std::vector<size_t> chosen = {0};
  int64_t tokens = lengths[0];
  if (tokens > limits.short_tokens) return chosen;
  for (size_t i = 1; i < lengths.size(); ++i) {
    if (static_cast<int64_t>(chosen.size()) >= limits.max_prompts) break;
    if (lengths[i] > limits.short_tokens || tokens + lengths[i] > limits.max_tokens) continue;
    chosen.push_back(i);
    tokens += lengths[i];
  }
  return chosen;
}

}  // namespace anchorage::prefill
