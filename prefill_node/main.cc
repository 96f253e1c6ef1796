// anchorage-prefill: runs prompts layer by layer and ships each layer's compressed cache.

#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "common/flags.h"
#include "common/status.h"
#include "observe/host_port.h"
#include "observe/shared_metrics.h"
#include "prefill_node/node.h"
#include "transport/event_loop.h"
#include "worker/program.h"

ABSL_FLAG(int, queue_size, 256, "prompts that may wait; more are turned away");
ABSL_FLAG(int, chunk, 2048, "prompt tokens that pass through a layer together");
ABSL_FLAG(std::string, data_host, "",
          "address of the interface over which KV leaves; empty: that of --control");

namespace anchorage::prefill {
namespace {

constexpr char kUsage[] =
    "anchorage-prefill: runs prompts layer by layer and ships each layer's compressed KV cache.\n\n"
    "  anchorage-prefill --model model.gguf --control 10.0.0.6:7000";

NodeOptions OptionsFromFlags(const worker::Settings& settings) {
  NodeOptions options;
  options.queue.max_prompts = absl::GetFlag(FLAGS_queue_size);
  if (options.queue.max_prompts < 1) DieOfBadFlag(Invalid("--queue-size: must be at least 1"));
  options.chunk_tokens = absl::GetFlag(FLAGS_chunk);
  if (options.chunk_tokens < 1) DieOfBadFlag(Invalid("--chunk: must be at least 1"));
  options.data_host = absl::GetFlag(FLAGS_data_host);
  if (options.data_host.empty()) {
    options.data_host = observe::ParseHostPort(settings.control).value().host;
  }
  return options;
}

int Main(int argc, char** argv) {
  const worker::Settings settings = worker::SettingsFromFlags("prefill", kUsage, argc, argv);
  const NodeOptions options = OptionsFromFlags(settings);
  const absl::StatusOr<worker::LoadedModel> model = worker::LoadModel(settings.model_path);
  if (!model.ok()) return worker::Fail(model.status());
  transport::EventLoop loop;
  observe::MetricsRegistry registry;
  observe::AddProcessMetrics(registry, settings.role, worker::ConfigInfoOf(settings));
  const absl::StatusOr<std::unique_ptr<PrefillNode>> node =
      PrefillNode::Create(settings, options, *model, loop, registry);
  if (!node.ok()) return worker::Fail(node.status());
  return worker::RunNode(settings, loop, registry, **node);
}

}  // namespace
}  // namespace anchorage::prefill

int main(int argc, char** argv) { return anchorage::prefill::Main(argc, argv); }
