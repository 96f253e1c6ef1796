#include "bench/setting.h"

#include "absl/strings/str_format.h"
#include "bench/machine_peak.h"
#include "common/version.h"

namespace anchorage::bench {

std::string Setting(const model::Model& model, int threads) {
  const model::ModelConfig& config = model.config();
  return absl::StrFormat("commit %s, %s, %d threads; %s: %d layers, %d/%d heads of %d", kCommit,
                         ProcessorName(), threads, config.name, config.num_layers,
                         config.num_q_heads, config.num_kv_heads, config.head_dim);
}

}  // namespace anchorage::bench
