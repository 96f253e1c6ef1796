// anchorage-decode: takes compressed KV caches and generates from them.

#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/time/time.h"
#include "common/bytes.h"
#include "common/flags.h"
#include "common/status.h"
#include "decode_node/node.h"
#include "kv/plan/plan.h"
#include "observe/host_port.h"
#include "observe/shared_metrics.h"
#include "transport/event_loop.h"
#include "worker/program.h"

ABSL_FLAG(std::string, data, "127.0.0.1:0", "host:port on which prefill nodes deliver KV");
ABSL_FLAG(std::string, kv_memory, "1GiB", "memory for KV caches, such as 512MiB or 8GiB");
ABSL_FLAG(
    absl::Duration, lease, absl::Seconds(10),
    "how long granted memory waits for its next layer or for the router's word that prefill is "
    "still at work");

namespace anchorage::decode {
namespace {

constexpr char kUsage[] =
    "anchorage-decode: takes compressed KV caches from prefill nodes and generates tokens.\n\n"
    "  anchorage-decode --model model.gguf --control 10.0.0.7:7100 --data 10.0.0.7:7101";

NodeOptions OptionsFromFlags() {
  NodeOptions options;
  options.data_address = absl::GetFlag(FLAGS_data);
  const absl::Status address = observe::ParseHostPort(options.data_address).status();
  if (!address.ok()) DieOfBadFlag(Annotate(address, "--data"));
  const absl::StatusOr<int64_t> memory = ParseBytes(absl::GetFlag(FLAGS_kv_memory));
  if (!memory.ok()) DieOfBadFlag(Annotate(memory.status(), "--kv-memory"));
  options.kv_memory_bytes = *memory;
  const absl::StatusOr<int64_t> lease = MillisecondsOf("--lease", absl::GetFlag(FLAGS_lease));
  if (!lease.ok()) DieOfBadFlag(lease.status());
  options.lease_ms = *lease;
  return options;
}

// InvalidArgument: the plan makes no sense for the model, or the memory is too small for any
// request at all.
absl::Status CheckPlanAndMemory(const kv::Geometry& geometry, const kv::PlanOptions& plan,
                                int64_t kv_memory_bytes) {
  const std::string problem = kv::CheckPlan(geometry, plan, 1, 1);
  if (!problem.empty()) return Invalid("%s", problem);
  const int64_t smallest = kv::PlanRequest(geometry, plan, 1, 1).bytes;
  if (kv_memory_bytes >= smallest) return absl::OkStatus();
  return Invalid("--kv-memory: %s holds no request of this model: the smallest takes %s",
                 FormatBytes(kv_memory_bytes), FormatBytes(smallest));
}

int Main(int argc, char** argv) {
  const worker::Settings settings = worker::SettingsFromFlags("decode", kUsage, argc, argv);
  const NodeOptions options = OptionsFromFlags();
  const absl::StatusOr<worker::LoadedModel> model = worker::LoadModel(settings.model_path);
  if (!model.ok()) return worker::Fail(model.status());
  if (const absl::Status memory =
          CheckPlanAndMemory(model->model->geometry(), settings.plan, options.kv_memory_bytes);
      !memory.ok()) {
    return worker::Fail(memory);
  }
  transport::EventLoop loop;
  observe::MetricsRegistry registry;
  observe::AddProcessMetrics(registry, settings.role, worker::ConfigInfoOf(settings));
  const absl::StatusOr<std::unique_ptr<DecodeNode>> node =
      DecodeNode::Create(settings, options, *model, loop, registry);
  if (!node.ok()) return worker::Fail(node.status());
  return worker::RunNode(settings, loop, registry, **node);
}

}  // namespace
}  // namespace anchorage::decode

int main(int argc, char** argv) { return anchorage::decode::Main(argc, argv); }
